"""Recheck of a preemption on the snapshot as it is now: a search took its time, and the cluster went on meanwhile."""

from collections.abc import Mapping, Sequence

from ullage.decide.placement.engine import Placement, PlacementEngine, hold
from ullage.decide.preemption.nominated import place_nominated
from ullage.decide.preemption.protection import PreemptionContext, VictimProtection
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import Preempt
from ullage.model.pod import Pod
from ullage.model.units import Instant


def is_still_right(
    engine: PlacementEngine,
    actions: Sequence[Preempt],
    pods: Mapping[ObjectKey, Pod],
    around: PreemptionContext,
    *,
    now: Instant,
) -> bool:
    """True if all victims may still be evicted, are still needed, and make room for all nominated `pods`."""
    return _may_go(engine, actions, pods, around) and _are_needed_and_enough(engine, actions, pods, around, now)


def _may_go(
    engine: PlacementEngine, actions: Sequence[Preempt], pods: Mapping[ObjectKey, Pod], around: PreemptionContext
) -> bool:
    held = engine.snapshot.pods
    victims = [victim for action in actions for victim in action.victims]
    known = [pod for victim in victims if (pod := held.get(victim.pod)) is not None and pod.uid == victim.uid]
    if len(known) < len(victims) or any(pod.node != victim.node for pod, victim in zip(known, victims, strict=True)):
        return False
    least = min(pods[action.pod].priority for action in actions)
    return VictimProtection(engine.snapshot, around, least).may_go(known)


def _are_needed_and_enough(
    engine: PlacementEngine,
    actions: Sequence[Preempt],
    pods: Mapping[ObjectKey, Pod],
    around: PreemptionContext,
    now: Instant,
) -> bool:
    snapshot = engine.snapshot
    lowest = min((pods[action.pod] for action in actions), key=lambda pod: (pod.priority, pod.key))
    with snapshot.what_if():
        place_nominated(engine, lowest, [pod for pod in around.nominated if pod.key not in pods], now=now)
        if _fit_all(engine, actions, pods, now):
            return not any(action.victims for action in actions)
        for action in actions:
            for other in list(snapshot.pods_on(action.node).values()):
                if other.deleting or other.key in around.leaving:
                    snapshot.forget(other.key)
            for victim in action.victims:
                snapshot.forget(victim.pod)
        return _fit_all(engine, actions, pods, now)


def _fit_all(engine: PlacementEngine, actions: Sequence[Preempt], pods: Mapping[ObjectKey, Pod], now: Instant) -> bool:
    """True if every pod fits on the node nominated for it, all of them together."""
    with engine.snapshot.what_if():
        for action in actions:
            placement = engine.place_on(pods[action.pod], action.node, now=now)
            if not isinstance(placement, Placement):
                return False
            hold(engine.snapshot, pods[action.pod], placement)
    return True
