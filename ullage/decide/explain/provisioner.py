"""Explanation of a NodeProvisioner: why it does not buy, why it does not shrink, and when it looks next."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ullage.decide.explain.answer import Answer, counted, some, that_wait
from ullage.decide.explain.planning import PlanInputs
from ullage.decide.explain.pod import explain_pod
from ullage.decide.explain.proof import Proof, ProvedRemedy
from ullage.decide.explain.remedy import Remedy, patch
from ullage.decide.provisioning.node_offers import ScaleUpBlocked
from ullage.decide.provisioning.planner import FleetFacts, FleetPlan, PoolPlan, plan_fleet
from ullage.decide.provisioning.pool_nodes import machines_of_nodes
from ullage.decide.provisioning.pool_step import PoolStepKind
from ullage.decide.provisioning.silent_agents import silence_of
from ullage.decide.provisioning.vm_demand import pending_and_vms_in_need
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.fact_event import ObjectKey
from ullage.model.provisioner import Provisioner
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot


def planned_fleet(
    snapshot: ClusterSnapshot, pools: Sequence[Provisioner], known: PlanInputs, *, now: Instant
) -> FleetPlan:
    """Plan of all pools for the pods that wait."""
    assigner = PodAssigner(snapshot, unreadable_claims=known.unreadable_claims)
    fleet = FleetFacts(provisioners=pools, instances=machines_of_nodes(pools, snapshot))
    return plan_fleet(assigner.engine, fleet, pending_and_vms_in_need(assigner), now=now)


def explain_provisioner(
    snapshot: ClusterSnapshot, name: str, known: PlanInputs, *, now: Instant, every: bool = False
) -> Answer | None:
    """Explain a pool by the plan of all pools; None if there is no such pool. With `every` all advice is tried."""
    if not any(one.name == name for one in known.pools):
        return None
    fleet = planned_fleet(snapshot, known.pools, known, now=now)
    plan = fleet.pools[name]
    verdict, message = _next_step(fleet, plan, now)
    waiting = [pod for pods in _blocked(fleet, name).values() for pod in pods]
    remedies: tuple[ProvedRemedy, ...] = ()
    if waiting:
        said = explain_pod(snapshot, snapshot.state.pods[waiting[0]], known, now=now, every=every)
        remedies = tuple(one for one in said.remedies if f"NodeProvisioner {name}" in one.remedy.sentence)
    remedies = remedies or _acting(snapshot, plan.provisioner, known, now=now)
    asks = (f"ullage explain pod/{waiting[0]} --prove",) if waiting else ()
    return Answer(
        about=f"nodeprovisioner/{name}",
        verdict=verdict,
        message=message,
        lines=(_size(plan), *_buying(fleet, plan, now), *_shrinking(plan, now), _when(plan, now)),
        steps=tuple(one.remedy.sentence for one in remedies),
        remedies=remedies,
        commands=(*asks, "ullage plan scale", f"kubectl describe nodeprovisioner {name}"),
    )


def _acting(
    snapshot: ClusterSnapshot, pool: Provisioner, known: PlanInputs, *, now: Instant
) -> tuple[ProvedRemedy, ...]:
    """The pool acts again, if it is paused or only recommends."""
    fields: dict[str, Any] = {}
    if pool.thresholds.paused:
        fields["paused"] = False
    if pool.thresholds.recommend_only:
        fields["recommendOnly"] = False
    if not fields:
        return ()
    acting = replace(pool, thresholds=replace(pool.thresholds, paused=False, recommend_only=False))
    pools = [acting if one.name == pool.name else one for one in known.pools]
    step = planned_fleet(snapshot, pools, known, now=now).pools[pool.name].step
    does = "it does nothing then" if step.kind is PoolStepKind.NO_ACTION else f"its next step is {step.kind.value}"
    said = " and ".join(f"set spec.{field} to false" for field in fields)
    remedy = Remedy(
        sentence=f"let NodeProvisioner {pool.name} act: {said}",
        commands=(patch("nodeprovisioner", ObjectKey("", pool.name), {"spec": fields}),),
    )
    return (ProvedRemedy(remedy, Proof(True, f"tried on a copy: {does}: {step.why}")),)


def _next_step(fleet: FleetPlan, plan: PoolPlan, now: Instant) -> tuple[str, str]:
    limits, back_off, step = plan.provisioner.thresholds, plan.provisioner.back_off, plan.step
    blocked = _blocked(fleet, plan.provisioner.name)
    if limits.paused:
        return "Paused", "it is paused (spec.paused): it neither buys nor removes"
    if (
        back_off is not None
        and back_off.until > now
        and (plan.evaluation.fresh or ScaleUpBlocked.BACKED_OFF in blocked)
    ):
        failure = f"{back_off.failure.value}{f': {back_off.message}' if back_off.message else ''}"
        failed = f"its cloud failed {counted(back_off.failures, 'time')}"
        return "BackedOff", f"{failed}; it buys again in {back_off.until - now:.0f} s ({failure})"
    if step.kind is not PoolStepKind.NO_ACTION:
        only = "; it only recommends that (spec.recommendOnly)" if step.recommended else ""
        return step.kind.value, f"{step.why}{only}"
    limit = {
        ScaleUpBlocked.FULL: f"its maxSize of {limits.max_size} is",
        ScaleUpBlocked.OVER_BUDGET: "the budget of the fleet is",
    }
    for why, words in limit.items():
        if why in blocked:
            return why.value, f"{words} the one thing in the way of {that_wait(len(blocked[why]))}"
    return step.kind.value, f"there is nothing to do: {step.why}"


def _blocked(fleet: FleetPlan, pool: str) -> dict[ScaleUpBlocked, list[ObjectKey]]:
    """Pods that wait by the limit of the pool that alone is in their way."""
    found: dict[ScaleUpBlocked, list[ObjectKey]] = {}
    for pod, said in fleet.demand.unmet.items():
        if isinstance(why := said.get(pool), ScaleUpBlocked):
            found.setdefault(why, []).append(pod)
    return found


def _size(plan: PoolPlan) -> str:
    limits, size = plan.provisioner.thresholds, plan.evaluation
    use = "no GPUs" if size.utilization_percent is None else f"{size.utilization_percent} % of GPUs used"
    bounds = f"between minSize {limits.min_size} and maxSize {limits.max_size}"
    return f"size: {counted(size.current, 'node')}, {size.target} wanted, {bounds}; {use}"


def _buying(fleet: FleetPlan, plan: PoolPlan, now: Instant) -> list[str]:
    name = plan.provisioner.name
    chosen = sum(pool == name for pool in fleet.demand.chosen.values())
    lines = [f"buying: for {that_wait(chosen)}"] if chosen else []
    open_one = plan.provisioner.purchase
    if open_one is not None:
        lines.append(f"buying: {counted(open_one.count, 'node')} asked for {now - open_one.since:.0f} s ago")
    coming = [node.name for node in plan.nodes if node.upcoming]
    if coming:
        lines.append(f"coming: {counted(len(coming), 'node')}: {some(coming)}")
    why: Counter[str] = Counter()
    for said in fleet.demand.unmet.values():
        if name in said:
            why[said[name].value] += 1
    reasons = ", ".join(f"{count} {reason}" for reason, count in why.most_common())
    if why:
        lines.append(f"not bought for {counted(sum(why.values()), 'pod')} that no pool serves: {reasons}")
    if not chosen and not why and not coming and open_one is None:
        lines.append("not buying: no pod waits that it would serve")
    silent = [node for node in plan.nodes if node.silence_excused]
    return [*lines, *([silence_of(silent)] if silent else [])]


def _shrinking(plan: PoolPlan, now: Instant) -> list[str]:
    limits, nodes = plan.provisioner.thresholds, plan.nodes
    empty = [node.name for node in nodes if node.empty and node.registered and not node.upcoming]
    marked = [node for node in nodes if node.marked_for_deletion]
    lines = [f"shrinking: {plan.evaluation.why_keep}"]
    if plan.provisioner.consolidation.drains:
        lines.append(
            "shrinking: the drain loop decides (consolidation.policy Drain); `ullage plan drain` says what stays"
        )
    elif not limits.min_utilization_percent:
        lines.append("shrinking: never, because minGPUUtilizationPercent is 0")
    lines.append(f"empty: {some(empty)}" if empty else "empty: no node, so none can be removed")
    lines += [f"marked: {node.name} goes in {max(0.0, node.goes_at - now):.0f} s" for node in marked[:3]]
    kept = [node.name for node in nodes if node.protected]
    return [*lines, *([f"kept by their owners: {some(kept)}"] if kept else [])]


def _when(plan: PoolPlan, now: Instant) -> str:
    wake = plan.step.wake_at
    if wake is None:
        return "next: when something changes"
    return f"next: in {max(0.0, wake - now):.0f} s, or when something changes"
