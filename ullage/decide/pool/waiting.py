"""Whose demand counts: pods that wait for a node and could have one, gangs as a whole."""

from collections.abc import Iterator

from ullage.decide.assigning import Assigner, queue_order, waits
from ullage.decide.pool.demand import Turn
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod


def waiting_turns(assigner: Assigner) -> Iterator[Turn]:
    """In the queue's order. Who waits for a node that is being made free needs no new one."""
    placements, seen = assigner.placements, set[ObjectKey]()
    for pod in sorted(filter(waits, placements.state.pods.values()), key=queue_order):
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
            ask = assigner.gang_ask(gang)
            if len(ask.pending) >= ask.needed:
                yield ask
