"""What the autoscaler is about to do for one waiting pod, in sentences: who buys a node for it, or why nobody does."""

from collections.abc import Callable, Mapping, Sequence

from ullage.decide.assigning import Assigner
from ullage.decide.pool.facts import machines_of_nodes
from ullage.decide.pool.market import NoPurchase
from ullage.decide.pool.plan import Fleet, FleetPlan, plan_fleet
from ullage.decide.pool.reconcile import StepKind
from ullage.decide.pool.waiting import waiting_turns
from ullage.decide.seat.deciding import device_ask
from ullage.model.pod import Pod
from ullage.model.provisioner import PoolNode, Provisioner
from ullage.model.refusal import Waiting
from ullage.model.verdict import Reason


def foretold(assigner: Assigner, pod: Pod, provisioners: Sequence[Provisioner], *, now: float) -> tuple[str, ...]:
    """For a pod that has no place: what its provisioners do about it. Nothing where there are none.

    Everybody who waits is taken into account, as if its scheduler had found it unschedulable. No cloud is asked.
    """
    if not provisioners or not isinstance(ready := assigner.entitled(pod), Pod):
        return ()
    if pod.unplaced == Waiting.FOR_CAPACITY:
        return ("no NodeProvisioner buys a node: one is on its way already (WaitingForCapacity)",)
    if device_ask(ready) is None:
        return ("no NodeProvisioner buys a node: the pod asks for no GPU",)
    fleet = Fleet(provisioners=provisioners, instances=machines_of_nodes(provisioners, assigner.placements))
    plan = plan_fleet(assigner.seating, fleet, waiting_turns(assigner), now=now)
    return _told(plan, pod, now)


def _told(plan: FleetPlan, pod: Pod, now: float) -> tuple[str, ...]:
    demand = plan.demand
    if pod.key in demand.chosen:
        return (_bought(plan, demand.chosen[pod.key], now),)
    if pod.key in demand.seated:
        return _seated(plan, demand.seated[pod.key])
    said = demand.unmet.get(pod.key, {})
    return tuple(
        f"NodeProvisioner {name} buys no node: {_refused(plan.pools[name].provisioner, why)}"
        for name, why in said.items()
    )


def _bought(plan: FleetPlan, name: str, now: float) -> str:
    pool = plan.pools[name]
    if pool.provisioner.thresholds.recommend_only:
        return f"NodeProvisioner {name} would buy a node, and only recommends it (spec.recommendOnly)"
    if pool.step.kind is StepKind.PROVISION:
        return f"wait: NodeProvisioner {name} buys a node for it"
    if pool.step.actions:
        return f"wait: NodeProvisioner {name} buys a node for it after its next step ({pool.step.kind.value})"
    wake = pool.step.wake_at
    when = "" if wake is None else f" in {max(0.0, wake - now):.0f} s"
    return f"wait: NodeProvisioner {name} buys a node for it{when}, with those of other pods that come until then"


def _seated(plan: FleetPlan, name: str) -> tuple[str, ...]:
    for pool in plan.pools.values():
        for node in pool.nodes:
            if node.name == name and (what := _becoming(node)):
                return (f"wait: {what} {name} of NodeProvisioner {pool.provisioner.name}",)
    return ()


def _becoming(node: PoolNode) -> str:
    if node.coming:
        return "it fits on the coming node"
    return "the deletion taint is taken off for it from node" if node.doomed else ""


def _refused(provisioner: Provisioner, why: NoPurchase | Reason) -> str:
    if isinstance(why, NoPurchase):
        return f"{_SPOKEN[why](provisioner)} ({why.value})"
    return f"a new node would refuse the pod ({why.value})"


def _failing(provisioner: Provisioner) -> str:
    back_off = provisioner.back_off
    return "its cloud failed" if back_off is None else f"{back_off.failure.value}: {back_off.message}"


_SPOKEN: Mapping[NoPurchase, Callable[[Provisioner], str]] = {
    NoPurchase.PAUSED: lambda _: "it is paused",
    NoPurchase.BACKED_OFF: _failing,
    NoPurchase.FULL: lambda one: f"all who wait need more than its maxSize of {one.thresholds.max_size}",
    NoPurchase.OVER_BUDGET: lambda _: "the budget of the fleet is used up",
}
