"""Preemption for a gang: nominations and victims with which all needed members would fit, or none at all.

Members are decided one after another in one what-if, each on the snapshot the one before it left. So a victim makes
room for as many members as possible, and no pod is evicted for a gang that would still not fit. In the end victims
whose room is not needed are kept: a victim for one member may turn out to make room for another, too.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from ullage.decide.gang.attempts import largest_first
from ullage.decide.gang.placement import GangRequest
from ullage.decide.placement.engine import NoFit, Placement, PlacementEngine, hold
from ullage.decide.preemption.nominated import place_nominated
from ullage.decide.preemption.preempt import NoPreemption, NoPreemptionReason, preempt
from ullage.decide.preemption.protection import PreemptionContext, gpus_lost
from ullage.model.action import Preempt
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.verdict import Reason


def preempt_for_gang(
    seating: PlacementEngine, gang: GangRequest, around: PreemptionContext, *, now: float
) -> tuple[Preempt, ...] | NoPreemption:
    """Nominate a node for each member the gang needs, some with victims. Leaves the snapshot as it was."""
    if len(gang.pending) < gang.needed:
        missing = f"{len(gang.pending)} of {gang.needed} members are there"
        return NoPreemption(NoPreemptionReason.GANG_INCOMPLETE, missing)
    before = around
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
                break
    return _with_some_spared(seating, actions, gang, before, now) if len(actions) == gang.needed else refusals[0]


def _with_some_spared(
    seating: PlacementEngine, actions: Sequence[Preempt], gang: GangRequest, around: PreemptionContext, now: float
) -> tuple[Preempt, ...]:
    """Nominations with fewer victims if the gang needs fewer; victims that hold most GPUs are kept first."""
    held = seating.placements.pods
    clearings = [one for one in actions if one.victims]
    clearings.sort(key=lambda one: (-sum(gpus_lost(held[victim.pod]) for victim in one.victims), one.pod))
    found, going = tuple(actions), clearings
    for spared in clearings if len(clearings) > 1 else ():
        fewer = [one for one in going if one is not spared]
        seats = _seats_without(seating, {victim.pod for one in fewer for victim in one.victims}, gang, around, now)
        if seats is not None:
            going, found = fewer, _nominated(seats, fewer)
    return found


def _seats_without(
    seating: PlacementEngine, victims: Collection[ObjectKey], gang: GangRequest, around: PreemptionContext, now: float
) -> list[tuple[Pod, str]] | None:
    """Nodes of all members the gang needs, once the victims are gone; None if too few members fit."""
    placements, seats = seating.placements, list[tuple[Pod, str]]()
    with placements.what_if():
        lowest = min(gang.pending, key=lambda pod: (pod.priority, pod.key))
        place_nominated(seating, lowest, around.nominated, now=now)
        for key in {*victims, *around.leaving} & placements.pods.keys():
            placements.remove(key)
        for pod in largest_first(gang.pending):
            seat = seating.seat(pod, now=now)
            if isinstance(seat, Placement):
                hold(placements, pod, seat)
                seats.append((pod, seat.node))
            if len(seats) == gang.needed:
                return seats
    return None


def _nominated(seats: Sequence[tuple[Pod, str]], clearings: Sequence[Preempt]) -> tuple[Preempt, ...]:
    """Nominations, one per placement. Victims go with a member placed on their node, else with the last member."""
    left = list(clearings)
    found: list[Preempt] = []
    for place, (pod, node) in enumerate(seats):
        last = place == len(seats) - 1
        own = [one for one in left if last or any(victim.node == node for victim in one.victims)]
        left = [one for one in left if one not in own]
        victims = tuple(victim for one in own for victim in one.victims)
        why = own[0].why if own else "free, and kept for its gang"
        found.append(Preempt(pod=pod.key, uid=pod.uid, node=node, victims=victims, why=why))
    return tuple(found)


def _seated_or_preempting(
    seating: PlacementEngine, pod: Pod, around: PreemptionContext, now: float
) -> Preempt | NoPreemption:
    """Place the member within the what-if: on free room, or on room made by preemption."""
    placements = seating.placements
    seat: Placement | NoFit | Reason = seating.seat(pod, now=now)
    if isinstance(seat, Placement):
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
    if not isinstance(seat, Placement):
        # Cannot be: preemption has seen it fit. No pod is evicted on a contradiction.
        return NoPreemption(NoPreemptionReason.NOT_ENOUGH_LOWER, f"{action.node} says {seat}")
    hold(placements, pod, seat)
    return action
