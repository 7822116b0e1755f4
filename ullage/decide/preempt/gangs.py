"""A gang without seats: the nodes and victims with which all it needs would get one, or nothing.

Its members are asked about one after another in one what-if, each on what the one before it left; so a victim makes
room for as many members as possible, and nobody is evicted for a gang that would still not fit.
"""

from dataclasses import replace

from ullage.decide.gang.attempts import largest_first
from ullage.decide.gang.seating import GangAsk
from ullage.decide.preempt.nominated import place_nominated
from ullage.decide.preempt.preempting import NoPreemption, NoVictims, preempt
from ullage.decide.preempt.protection import Surroundings
from ullage.decide.seat.deciding import Refusal, Seat, Seating, hold
from ullage.model.action import Preempt
from ullage.model.pod import Pod
from ullage.model.verdict import Reason


def preempt_for_gang(
    seating: Seating, gang: GangAsk, around: Surroundings, *, now: float
) -> tuple[Preempt, ...] | NoPreemption:
    """A nomination for each member the gang needs, some with victims. Leaves the picture as it is."""
    if len(gang.pending) < gang.needed:
        missing = f"{len(gang.pending)} of {gang.needed} members are there"
        return NoPreemption(NoVictims.GANG_INCOMPLETE, missing)
    actions: list[Preempt] = []
    refusals: list[NoPreemption] = []
    with seating.placements.what_if():
        lowest = min(gang.pending, key=lambda pod: (pod.priority, pod.key))
        place_nominated(seating, lowest, around.nominated, now=now)
        for pod in largest_first(gang.pending):
            answer = _seated_or_preempting(seating, pod, around, now)
            if isinstance(answer, NoPreemption):
                refusals.append(answer)
                continue
            actions.append(answer)
            around = replace(around, leaving=frozenset(around.leaving) | {victim.pod for victim in answer.victims})
            if len(actions) == gang.needed:
                return tuple(actions)
    return refusals[0]


def _seated_or_preempting(seating: Seating, pod: Pod, around: Surroundings, now: float) -> Preempt | NoPreemption:
    """The member has a seat from now on, within the what-if: a free one, or one that is made for it."""
    placements = seating.placements
    seat: Seat | Refusal | Reason = seating.seat(pod, now=now)
    if isinstance(seat, Seat):
        hold(placements, pod, seat)
        return Preempt(pod=pod.key, uid=pod.uid, node=seat.node, victims=(), why="free, and kept for its gang")
    action = preempt(seating, pod, around, now=now)
    if isinstance(action, NoPreemption):
        return action
    for victim in action.victims:
        placements.remove(victim.pod)
    for other in list(placements.pods_on(action.node).values()):
        if other.deleting or other.key in around.leaving:
            placements.remove(other.key)
    seat = seating.seat_on(pod, action.node, now=now)
    if not isinstance(seat, Seat):
        # Cannot be: preemption has seen it fit. Nobody is evicted on a contradiction.
        return NoPreemption(NoVictims.NOT_ENOUGH_LOWER, f"{action.node} says {seat}")
    hold(placements, pod, seat)
    return action
