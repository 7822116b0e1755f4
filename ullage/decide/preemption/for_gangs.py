"""Preemption for a gang: nominations and victims with which all needed members would fit, or none at all.

Members are decided one after another, each on what the one before it left. So a victim makes room for as many members
as possible, and no pod is evicted for a gang that would still not fit. In the end victims whose room is not needed are
kept: a victim for one member may turn out to make room for another, too. A stepper, as for one pod.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice

from ullage.decide.gang.attempts import largest_first
from ullage.decide.gang.placement import GangPlacement, GangRequest, place_gang
from ullage.decide.placement.engine import Placement, PlacementEngine
from ullage.decide.preemption.assumptions import Assumptions
from ullage.decide.preemption.least_loss_for_gangs import is_small, requested_gpus, with_less_lost
from ullage.decide.preemption.preempt import NoPreemption, NoPreemptionReason, search_preemption
from ullage.decide.preemption.protection import PreemptionContext, gpus_lost
from ullage.model.device import MILLI_GPU
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import Preempt, Victim
from ullage.model.pod import Pod
from ullage.model.stepper import StepMeter, Stepper, finish
from ullage.model.units import Instant, Seconds

MEMBER_COST = Seconds(0.000_3)
"""Modelled CPU seconds of placing one member."""


def preempt_for_gang(
    engine: PlacementEngine, gang: GangRequest, around: PreemptionContext, *, now: Instant
) -> tuple[Preempt, ...] | NoPreemption:
    """Decide on preemption for a gang at once."""
    return finish(search_gang_preemption(Assumptions(engine, now=now), gang, around))


def search_gang_preemption(
    given: Assumptions, gang: GangRequest, around: PreemptionContext
) -> Stepper[tuple[Preempt, ...] | NoPreemption]:
    """Nominate a node for each member the gang needs, some with victims. Leaves the snapshot as it was.

    The snapshot may change between steps: check the answer by `recheck.is_still_right` before it is used.
    """
    if len(gang.pending) < gang.needed:
        missing = f"{len(gang.pending)} of {gang.needed} members are there"
        return NoPreemption(NoPreemptionReason.GANG_INCOMPLETE, missing)
    meter, before = StepMeter(), around
    lowest = min(gang.pending, key=lambda pod: (pod.priority, pod.key))
    nominated = given.copy()
    yield from nominated.add_nominated(lowest, around.nominated, meter)
    actions: list[Preempt] = []
    refusals: list[NoPreemption] = []
    given = nominated.copy()
    for pod in largest_first(gang.pending):
        answer = yield from _placed_or_preempting(given, pod, around, meter)
        if meter.spend(Seconds(MEMBER_COST + given.cost)):
            meter.has_time = yield meter.take()
        if isinstance(answer, NoPreemption):
            refusals.append(answer)
            continue
        actions.append(answer)
        around = replace(around, leaving=frozenset(around.leaving) | {victim.pod for victim in answer.victims})
        if len(actions) == gang.needed:
            kept = yield from _with_some_kept(nominated, actions, gang, before)
            return (yield from _with_less_lost(nominated, kept, gang, before))
    return refusals[0]


def _placed_or_preempting(
    given: Assumptions, pod: Pod, around: PreemptionContext, meter: StepMeter
) -> Stepper[Preempt | NoPreemption]:
    """Assume the member on free room, or on room made by preemption."""
    engine = given.engine
    with given.trial():
        free = engine.place(pod, now=given.now, closed=around.closed)
    if isinstance(free, Placement):
        given.place(pod, free)
        return Preempt(pod=pod.key, uid=pod.uid, node=free.node, victims=(), why="free, and kept for its gang")
    if meter.spend(Seconds(MEMBER_COST + given.cost)):
        meter.has_time = yield meter.take()
        if not meter.has_time:
            return NoPreemption(NoPreemptionReason.OUT_OF_TIME)
    action = yield from search_preemption(given, pod, around)
    if isinstance(action, NoPreemption):
        return action
    if meter.spend(Seconds(given.cost)):
        meter.has_time = yield meter.take()
    given.remove(victim.pod for victim in action.victims)
    here = engine.snapshot.pods_on(action.node).values()
    given.remove([other.key for other in here if other.deleting or other.key in around.leaving])
    with given.trial():
        made = engine.place_on(pod, action.node, now=given.now)
    if not isinstance(made, Placement):
        # The cluster has changed since. No pod is evicted on a contradiction.
        return NoPreemption(NoPreemptionReason.CHANGED, f"{action.node} says {made}")
    given.place(pod, made)
    return action


def _with_some_kept(
    nominated: Assumptions, actions: Sequence[Preempt], gang: GangRequest, around: PreemptionContext
) -> Stepper[tuple[Preempt, ...]]:
    """Nominations with fewer victims if the gang needs fewer; victims that hold most GPUs are kept first."""
    held = nominated.engine.snapshot.pods
    clearings = [one for one in actions if one.victims]
    lost = {
        one.pod: sum(gpus_lost(held[victim.pod]) for victim in one.victims if victim.pod in held) for one in clearings
    }
    clearings.sort(key=lambda one: (-lost[one.pod], one.pod))
    found, going = tuple(actions), clearings
    for spared in clearings if len(clearings) > 1 else ():
        fewer = [one for one in going if one is not spared]
        victims = {victim.pod: None for one in fewer for victim in one.victims}
        nodes = yield from _nodes_without(nominated, [*victims, *sorted(around.leaving)], gang, around)
        if nodes is not None:
            going, found = fewer, _nominated(nodes, fewer)
    return found


def _with_less_lost(
    nominated: Assumptions, actions: tuple[Preempt, ...], gang: GangRequest, around: PreemptionContext
) -> Stepper[tuple[Preempt, ...]]:
    """Nominations with victims of lower priority or with fewer GPUs.

    On a small cluster they are always looked for; on a large one only where GPUs are lost that no member gets.
    """
    held = nominated.engine.snapshot.pods
    victims = [held[victim.pod] for one in actions for victim in one.victims if victim.pod in held]
    members = {pod.key: pod for pod in gang.pending}
    wanted = sum(requested_gpus(members[one.pod]) for one in actions if one.victims)
    small = is_small(nominated.engine)
    if not victims or (not small and sum(map(gpus_lost, victims)) <= wanted):
        return actions

    def tried(gone: Sequence[Pod]) -> Stepper[list[tuple[Pod, str]] | None]:
        keys = [*(pod.key for pod in gone), *sorted(around.leaving)]
        places = yield from _nodes_without(nominated, keys, gang, around)
        return _nodes_together(nominated, keys, gang, around) if places is None and small else places

    better = yield from with_less_lost(nominated, gang, around, victims, tried)
    if better is None:
        return actions
    lost = sum(map(gpus_lost, better.pods)) // MILLI_GPU
    why = f"gang {gang.key} needs room: evicting {len(better.pods)} with {lost} GPUs"
    return _nominated(better.places, [_eviction(pod, why) for pod in better.pods])


def _eviction(pod: Pod, why: str) -> Preempt:
    victim = Victim(pod=pod.key, uid=pod.uid, node=pod.node, priority=pod.priority)
    return Preempt(pod=pod.key, uid=pod.uid, node=pod.node, victims=(victim,), why=why)


def _nodes_without(
    nominated: Assumptions, gone: Collection[ObjectKey], gang: GangRequest, around: PreemptionContext
) -> Stepper[list[tuple[Pod, str]] | None]:
    """Nodes of all members the gang needs, once these pods are gone; None if too few members fit."""
    meter, nodes = StepMeter(), list[tuple[Pod, str]]()
    given = nominated.copy()
    given.remove(gone)
    for pod in largest_first(gang.pending):
        with given.trial():
            placement = given.engine.place(pod, now=given.now, closed=around.closed)
        if isinstance(placement, Placement):
            given.place(pod, placement)
            nodes.append((pod, placement.node))
        if len(nodes) == gang.needed:
            return nodes
        if meter.spend(Seconds(MEMBER_COST + given.cost)):
            meter.has_time = yield meter.take()
        if not meter.has_time:
            break
    return None


def _nodes_together(
    nominated: Assumptions, gone: Collection[ObjectKey], gang: GangRequest, around: PreemptionContext
) -> list[tuple[Pod, str]] | None:
    """Nodes as the gang would get them when it is placed: more ways are tried than one member after another."""
    given = nominated.copy()
    given.remove(gone)
    with given.trial():
        answer = place_gang(given.engine, gang, now=given.now, closed=around.closed)
    if not isinstance(answer, GangPlacement):
        return None
    members = {pod.key: pod for pod in gang.pending}
    return [(members[key], one.node) for key, one in islice(answer.placements.items(), gang.needed)]


def _nominated(nodes: Sequence[tuple[Pod, str]], clearings: Sequence[Preempt]) -> tuple[Preempt, ...]:
    """Nominations, one per placement. Victims go with a member placed on their node, else with the last member."""
    left = list(clearings)
    found: list[Preempt] = []
    for place, (pod, node) in enumerate(nodes):
        last = place == len(nodes) - 1
        own = [one for one in left if last or any(victim.node == node for victim in one.victims)]
        left = [one for one in left if one not in own]
        victims = tuple(victim for one in own for victim in one.victims)
        why = own[0].why if own else "free, and kept for its gang"
        found.append(Preempt(pod=pod.key, uid=pod.uid, node=node, victims=victims, why=why))
    return tuple(found)
