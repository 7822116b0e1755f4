"""Whether what a plan says holds, asked anew: all its nodes go at once, and their pods come back in any order."""

from collections.abc import Sequence

from ullage.decide.assigning import Assigner
from ullage.decide.drain.destinations import Destinations
from ullage.decide.drain.facts import DrainMemory, DrainPlan
from ullage.decide.drain.placing import Placing
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.provisioner import STAY_BEHIND


def violations(assigner: Assigner, plan: DrainPlan, order: Sequence[ObjectKey] = (), *, now: float) -> list[ObjectKey]:
    """Pods that have no place when all nodes of a plan are gone and its pods come back in this order, else by name.

    Each is first asked to where the plan has it. Rules about other pods and exact GPUs can depend on who comes first: a
    plan that holds in one order only is worth knowing. The picture is as before.
    """
    placements = assigner.placements
    rows, held = placements.columns.rows, placements.pods
    moves = {move.pod: move.to for one in plan.removable for move in one.moves}
    pods = {key: held[key] for key in moves}
    destinations = Destinations(assigner.seating, now=now)
    placing = Placing(assigner.seating, destinations, DrainMemory(hints=moves), now=now)
    ranks = {key: place for place, key in enumerate(order)}
    with placing.moving.attempt():
        for one in plan.removable:
            destinations.close(rows[one.node])
            placing.moving.make_ghost(one.node)
        placing.take_out(tuple(pods.values()))
        in_order = sorted(pods, key=lambda each: (ranks.get(each, len(ranks)), each))
        return [key for key in in_order if isinstance(placing.seat(pods[key]), Pod)]


def left_behind(assigner: Assigner, plan: DrainPlan) -> list[ObjectKey]:
    """Pods on nodes of a plan that nobody moves and that do not go with their node."""
    found: list[ObjectKey] = []
    for one in plan.removable:
        known = {move.pod for move in one.moves} | set(one.waits_for)
        for key, pod in sorted(assigner.placements.pods_on(one.node).items()):
            stays = pod.owner is None or pod.owner.kind not in STAY_BEHIND
            if key not in known and stays and not (pod.marks.mirror or pod.marks.daemon):
                found.append(key)
    return found
