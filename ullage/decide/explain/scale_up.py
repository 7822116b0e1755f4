"""Autoscaler's plan for one pending pod, in sentences: the provisioner that buys a node, or why none does."""

from collections.abc import Callable, Mapping, Sequence

from ullage.decide.placement.engine import device_ask
from ullage.decide.provisioning.node_offers import ScaleUpBlocked
from ullage.decide.provisioning.planner import FleetFacts, FleetPlan, plan_fleet
from ullage.decide.provisioning.pool_nodes import machines_of_nodes
from ullage.decide.provisioning.pool_step import PoolStepKind
from ullage.decide.provisioning.silent_agents import silence_of
from ullage.decide.provisioning.vm_demand import pending_and_vms_in_need
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.pod import Pod
from ullage.model.provisioner import PoolNode, Provisioner
from ullage.model.refusal import PodScheduledReason
from ullage.model.units import Instant
from ullage.model.verdict import Reason


def forecast(assigner: PodAssigner, pod: Pod, provisioners: Sequence[Provisioner], *, now: Instant) -> tuple[str, ...]:
    """Sentences on what each provisioner does for a pod without a node. Empty where there are no provisioners.

    All pending pods are considered, as if their scheduler had found them unschedulable. No cloud is asked.
    """
    if not provisioners or not isinstance(ready := assigner.entitled(pod), Pod):
        return ()
    if pod.unplaced == PodScheduledReason.FOR_CAPACITY:
        return ("no NodeProvisioner buys a node: one is on its way already (WaitingForCapacity)",)
    if device_ask(ready) is None:
        return ("no NodeProvisioner buys a node: the pod asks for no GPU",)
    fleet = FleetFacts(provisioners=provisioners, instances=machines_of_nodes(provisioners, assigner.snapshot))
    plan = plan_fleet(assigner.engine, fleet, pending_and_vms_in_need(assigner), now=now)
    return _sentences(plan, pod, now)


def _sentences(plan: FleetPlan, pod: Pod, now: Instant) -> tuple[str, ...]:
    demand = plan.demand
    if pod.key in demand.chosen:
        return (purchase_said(plan, demand.chosen[pod.key], now),)
    if pod.key in demand.placed:
        return _placed(plan, demand.placed[pod.key])
    said = demand.unmet.get(pod.key, {})
    return tuple(
        f"NodeProvisioner {name} buys no node: {_refused(plan.pools[name].provisioner, why)}"
        for name, why in said.items()
    )


def purchase_said(plan: FleetPlan, name: str, now: Instant) -> str:
    """Sentence on the node that a pool buys for a pod."""
    pool = plan.pools[name]
    if pool.provisioner.thresholds.recommend_only:
        return f"NodeProvisioner {name} would buy a node, and only recommends it (spec.recommendOnly)"
    if pool.step.kind is PoolStepKind.SCALE_UP:
        return f"wait: NodeProvisioner {name} buys a node for it"
    if pool.step.actions:
        return f"wait: NodeProvisioner {name} buys a node for it after its next step ({pool.step.kind.value})"
    wake = pool.step.wake_at
    when = "" if wake is None else f" in {max(0.0, wake - now):.0f} s"
    return f"wait: NodeProvisioner {name} buys a node for it{when}, with those of other pods that come until then"


def _placed(plan: FleetPlan, name: str) -> tuple[str, ...]:
    for pool in plan.pools.values():
        for node in pool.nodes:
            if node.name != name:
                continue
            if what := _becoming(node):
                return (f"wait: {what} {name} of NodeProvisioner {pool.provisioner.name}",)
            if node.silence_excused:
                return (f"NodeProvisioner {pool.provisioner.name} buys no node: {silence_of([node])}",)
    return ()


def _becoming(node: PoolNode) -> str:
    if node.upcoming:
        return "it fits on the coming node"
    return "the deletion taint is taken off for it from node" if node.marked_for_deletion else ""


def _refused(provisioner: Provisioner, why: ScaleUpBlocked | Reason) -> str:
    if isinstance(why, ScaleUpBlocked):
        return f"{_SPOKEN[why](provisioner)} ({why.value})"
    return f"a new node would refuse the pod ({why.value})"


def _failing(provisioner: Provisioner) -> str:
    back_off = provisioner.back_off
    return "its cloud failed" if back_off is None else f"{back_off.failure.value}: {back_off.message}"


_SPOKEN: Mapping[ScaleUpBlocked, Callable[[Provisioner], str]] = {
    ScaleUpBlocked.PAUSED: lambda _: "it is paused",
    ScaleUpBlocked.BACKED_OFF: _failing,
    ScaleUpBlocked.FULL: lambda one: f"all who wait need more than its maxSize of {one.thresholds.max_size}",
    ScaleUpBlocked.OVER_BUDGET: lambda _: "the budget of the fleet is used up",
    ScaleUpBlocked.NOT_FOR_VMS: lambda _: "nodeSelector of the VM configuration does not name its nodes",
}
