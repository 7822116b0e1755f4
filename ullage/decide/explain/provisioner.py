"""Explanation of a NodeProvisioner: why it does not buy, why it does not shrink, and when it looks next."""

from collections import Counter

from ullage.decide.explain.answer import Answer, some, that_wait
from ullage.decide.provisioning.node_offers import ScaleUpBlocked
from ullage.decide.provisioning.planner import FleetPlan, PoolPlan
from ullage.decide.provisioning.pool_step import PoolStepKind
from ullage.decide.provisioning.silent_agents import silence_of
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant


def explain_provisioner(fleet: FleetPlan, name: str, *, now: Instant) -> Answer | None:
    """Explain a pool by the plan of all pools; None if there is no such pool."""
    plan = fleet.pools.get(name)
    if plan is None:
        return None
    verdict, message = _next_step(fleet, plan, now)
    steps, commands = _steps(fleet, plan)
    return Answer(
        about=f"nodeprovisioner/{name}",
        verdict=verdict,
        message=message,
        lines=(_size(plan), *_buying(fleet, plan, now), *_shrinking(plan, now), _when(plan, now)),
        steps=steps,
        commands=(*commands, "ullage plan scale", f"kubectl describe nodeprovisioner {name}"),
    )


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
        failed = f"its cloud failed {back_off.failures} times"
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


def blocked_pods(fleet: FleetPlan, pool: str) -> list[ObjectKey]:
    """Pods that wait only for a limit of the pool, in the order of the plan."""
    return [pod for pods in _blocked(fleet, pool).values() for pod in pods]


def _size(plan: PoolPlan) -> str:
    limits, size = plan.provisioner.thresholds, plan.evaluation
    use = "no GPUs" if size.utilization_percent is None else f"{size.utilization_percent} % of GPUs used"
    bounds = f"between minSize {limits.min_size} and maxSize {limits.max_size}"
    return f"size: {size.current} nodes, {size.target} wanted, {bounds}; {use}"


def _buying(fleet: FleetPlan, plan: PoolPlan, now: Instant) -> list[str]:
    name = plan.provisioner.name
    chosen = sum(pool == name for pool in fleet.demand.chosen.values())
    lines = [f"buying: for {that_wait(chosen)}"] if chosen else []
    open_one = plan.provisioner.purchase
    if open_one is not None:
        lines.append(f"buying: {open_one.count} nodes were asked for {now - open_one.since:.0f} s ago")
    coming = [node.name for node in plan.nodes if node.upcoming]
    if coming:
        lines.append(f"coming: {len(coming)} nodes: {some(coming)}")
    why: Counter[str] = Counter()
    for said in fleet.demand.unmet.values():
        if name in said:
            why[said[name].value] += 1
    reasons = ", ".join(f"{count} {reason}" for reason, count in why.most_common())
    if why:
        lines.append(f"not bought for {sum(why.values())} pods that no pool serves: {reasons}")
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


def _steps(fleet: FleetPlan, plan: PoolPlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    name, limits = plan.provisioner.name, plan.provisioner.thresholds
    if limits.paused:
        patch = f'kubectl patch nodeprovisioner {name} --type merge -p \'{{"spec":{{"paused":false}}}}\''
        return ("resume it: set spec.paused to false",), (patch,)
    waiting = _blocked(fleet, name).get(ScaleUpBlocked.FULL)
    if waiting:
        body = f'\'{{"spec":{{"maxSize":{limits.max_size + 1}}}}}\''
        patch = f"kubectl patch nodeprovisioner {name} --type merge -p {body}"
        return ("raise spec.maxSize",), (f"ullage explain pod/{waiting[0]} --prove", patch)
    return (), ()
