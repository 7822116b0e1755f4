"""Whose demand counts: pods that wait for a node and could have one, gangs as a whole."""

from collections.abc import Callable, Collection, Iterator

from ullage.decide.assigning import Assigner, queue_order, waits
from ullage.decide.pool.demand import Turn
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.refusal import Waiting


def waiting_turns(assigner: Assigner, counts: Callable[[Pod], bool] = waits) -> Iterator[Turn]:
    """In the queue's order. Who waits for a node that is being made free needs no new one."""
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
    """Whether nodes are bought for a pod that waits.

    For pods that name one of these schedulers the rules asked here are the scheduler's own: what they say is its
    verdict, before it is written. Of others nobody knows more than they say: only those count that were found
    unschedulable. Who is being served by other means counts for nobody.
    """

    def counts(pod: Pod) -> bool:
        if not waits(pod) or pod.unplaced == Waiting.FOR_CAPACITY:
            return False
        return pod.scheduler in schedulers or pod.unplaced == Waiting.UNSCHEDULABLE

    return counts
