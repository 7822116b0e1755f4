"""Pending pods and gangs for which nodes may be bought, in the order of the queue."""

from collections.abc import Callable, Collection

from ullage.decide.gang.membership import gang_of
from ullage.decide.gang.placement import GangRequest
from ullage.decide.scheduling.assignment import PodAssigner, queue_order, waits
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import is_smart_pod
from ullage.model.pod import Pod
from ullage.model.refusal import PodScheduledReason
from ullage.model.stepper import StepMeter, Stepper, finish, sort_in_steps
from ullage.model.units import Seconds
from ullage.state.snapshot import ClusterSnapshot

PodOrGang = Pod | GangRequest
"""Pod or gang: the unit of one placement decision."""

TURN_COST = 0.000_005
"""Modelled CPU seconds of reading one pending pod."""
_LOOKED_AT, _LOOK_COST = 2_000, 0.000_000_5
"""Pods that are looked at in one step whether they are pending, and the modelled cost of one."""


def is_pending(turn: PodOrGang, snapshot: ClusterSnapshot) -> bool:
    """True if the pod, or every member of the gang, holds no room yet."""
    if isinstance(turn, Pod):
        return turn.key not in snapshot.pods
    return not any(pod.key in snapshot.pods for pod in turn.pending)


def pending_pods_and_gangs(assigner: PodAssigner, counts: Callable[[Pod], bool] = waits) -> list[PodOrGang]:
    """Pods and gangs in the order of the queue. A nominated pod, whose node is being made free, needs no new one."""
    return finish(pending_in_steps(assigner, counts))


def pending_in_steps(assigner: PodAssigner, counts: Callable[[Pod], bool] = waits) -> Stepper[list[PodOrGang]]:
    """`pending_pods_and_gangs`, in steps. Pods that come between them are left to the next plan."""
    snapshot, meter, seen = assigner.snapshot, StepMeter(), set[ObjectKey]()
    everybody, pending, turns = list(snapshot.state.pods.values()), list[Pod](), list[PodOrGang]()
    for first in range(0, len(everybody), _LOOKED_AT):
        pending += filter(counts, everybody[first : first + _LOOKED_AT])
        if meter.spend(Seconds(_LOOK_COST * _LOOKED_AT if len(everybody) > _LOOKED_AT else 0.0)):
            yield meter.take()
    for known in (yield from sort_in_steps(pending, queue_order, meter)):
        pod = snapshot.state.pods.get(known.key)
        if pod is None or (pod is not known and not counts(pod)):
            continue
        turn = _turn_of(pod, assigner, counts, seen)
        turns += [] if turn is None else [turn]
        if meter.spend(Seconds(TURN_COST)):
            yield meter.take()
    return turns


def _turn_of(pod: Pod, assigner: PodAssigner, counts: Callable[[Pod], bool], seen: set[ObjectKey]) -> PodOrGang | None:
    """The turn of a pending pod, or of its gang at the first of its members."""
    snapshot = assigner.snapshot
    if pod.key in snapshot.pods or pod.nominated in snapshot.columns.rows:
        return None
    ready = assigner.entitled(pod)
    if not isinstance(ready, Pod):
        return None
    gang = gang_of(pod, assigner.snapshot.state)
    if gang is None:
        return ready
    if gang in seen:
        return None
    seen.add(gang)
    ask = assigner.gang_ask(gang, counts)
    return ask if len(ask.pending) >= ask.needed else None


def buys_for(schedulers: Collection[str]) -> Callable[[Pod], bool]:
    """Predicate: True if nodes are bought for a pending pod.

    For pods of these schedulers the rules asked here are the scheduler's own, so their verdict is known before it is
    written. Pods of other schedulers count only when found unschedulable by their own. Pods for which a node is
    upcoming
    by other means do not count, nor do smart pods, which are such a means.
    """

    def counts(pod: Pod) -> bool:
        if not waits(pod) or pod.unplaced == PodScheduledReason.FOR_CAPACITY or is_smart_pod(pod.labels):
            return False
        return pod.scheduler in schedulers or pod.unplaced == PodScheduledReason.UNSCHEDULABLE

    return counts
