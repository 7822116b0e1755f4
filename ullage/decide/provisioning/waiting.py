"""Pending pods whose demand counts: those that wait for a node and could have one, gangs as a whole."""

from collections.abc import Callable, Collection, Iterator

from ullage.decide.provisioning.demand import Turn
from ullage.decide.scheduling.assignment import PodAssigner, queue_order, waits
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import is_smart_pod
from ullage.model.pod import Pod
from ullage.model.refusal import PodScheduledReason


def waiting_turns(assigner: PodAssigner, counts: Callable[[Pod], bool] = waits) -> Iterator[Turn]:
    """Pods and gangs in the order of the queue. A nominated pod, whose node is being made free, needs no new one."""
    placements, seen = assigner.placements, set[ObjectKey]()
    for pod in sorted(filter(counts, placements.state.pods.values()), key=queue_order):
        if pod.key in placements.pods or pod.nominated in placements.columns.rows:
            continue
        ready = assigner.entitled(pod)
        if not isinstance(ready, Pod):
            continue
        gang = assigner.gang_of(pod)
        if gang is None:
            yield ready
        elif gang not in seen:
            seen.add(gang)
            ask = assigner.gang_ask(gang, counts)
            if len(ask.pending) >= ask.needed:
                yield ask


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
