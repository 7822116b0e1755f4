"""Replay of a drain plan: all its nodes go at once, and their pods come back in any order."""

from collections.abc import Sequence

from ullage.decide.draining.destinations import DestinationSearch
from ullage.decide.draining.inputs import DrainPlan, PlannerMemory
from ullage.decide.draining.relocation import PodRelocator
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.provisioner import STAY_BEHIND
from ullage.model.units import Instant


def violations(
    assigner: PodAssigner, plan: DrainPlan, order: Sequence[ObjectKey] = (), *, now: float
) -> list[ObjectKey]:
    """Pods that have no place when all nodes of a plan are gone and its pods come back in this order, else by name.

    Each is first tried on the node the plan has for it. Rules about other pods and exact GPUs can depend on the order:
    a plan that holds in one order only is worth knowing. The snapshot is unchanged afterwards.
    """
    snapshot = assigner.snapshot
    rows, held = snapshot.columns.rows, snapshot.pods
    moves = {move.pod: move.to for one in plan.removable for move in one.moves}
    pods = {key: held[key] for key in moves}
    destinations = DestinationSearch(assigner.engine, now=Instant(now))
    relocator = PodRelocator(assigner.engine, destinations, PlannerMemory(hints=moves), now=Instant(now))
    ranks = {key: place for place, key in enumerate(order)}
    with relocator.snapshot.what_if():
        for one in plan.removable:
            destinations.close(rows[one.node])
            relocator.close_to_new_pods(one.node)
        relocator.take_out(tuple(pods.values()))
        in_order = sorted(pods, key=lambda each: (ranks.get(each, len(ranks)), each))
        return [key for key in in_order if isinstance(relocator.place(pods[key]), Pod)]


def left_behind(assigner: PodAssigner, plan: DrainPlan) -> list[ObjectKey]:
    """Pods on nodes of a plan that the plan does not move and that do not leave with their node."""
    found: list[ObjectKey] = []
    for one in plan.removable:
        known = {move.pod for move in one.moves} | set(one.waits_for)
        for key, pod in sorted(assigner.snapshot.pods_on(one.node).items()):
            stays = pod.owner is None or pod.owner.kind not in STAY_BEHIND
            if key not in known and stays and not (pod.marks.mirror or pod.marks.daemon):
                found.append(key)
    return found
