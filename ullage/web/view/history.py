"""Samples and changes for the history, made from what the model shows anyway. Pure; `now` is an argument."""

from collections import Counter
from collections.abc import Iterable, Mapping

from ullage.model.device import MILLI_GPU
from ullage.model.provisioner import MICROS
from ullage.web.history.records import Change, FleetSample, HistoryRecord, PoolSample, QueueSample
from ullage.web.view.rows import PoolRow, WaitingGroupRow
from ullage.web.view.usage import NodeCost

MOST_POOLS = 40
MOST_GROUPS = 12
"""Pools, and groups of waiting pods, in one sample: those with most GPUs."""
MOST_OF_A_REASON = 20
"""Changes of one reason kept one by one in the span of a sample; the others are counted in it."""


class HistorySampler:
    """Figures summed up until a sample is due, and the changes of this time."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._begin: float | None = None
        self._now = 0.0
        self._sums = [0.0] * 8
        self._kept: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._fresh: list[HistoryRecord] = []

    def note(self, changes: Iterable[Change]) -> None:
        """Take changes. Only the first of each reason are kept one by one: a storm must not push out the past."""
        for one in changes:
            self._kept[one.reason] += 1
            if self._kept[one.reason] <= MOST_OF_A_REASON:
                self._fresh.append(one)
            else:
                self._left_out[one.reason] += 1

    def advance(self, worth: NodeCost, waiting: tuple[int, int], *, now: float) -> bool:
        """Count the time since the last call, during which these values held. True if a sample is due.

        `waiting` are the pods that wait and the GPUs they ask for. A clock that went back begins a new span.
        """
        if self._begin is None or now < self._now:
            self._restart(now)
            return False
        seconds, self._now = now - self._now, now
        gpus = [one / MILLI_GPU for one in (worth.gpus, worth.allocated, worth.broken)]
        values = [worth.nodes, *gpus, *waiting, worth.price / MICROS, worth.waste / MICROS]
        self._sums = [total + seconds * value for total, value in zip(self._sums, values, strict=True)]
        return now - self._begin >= self._interval

    def sample(self, pools: list[PoolSample], groups: Iterable[WaitingGroupRow]) -> None:
        """Make the sample that is due."""
        if self._begin is None or self._now <= self._begin:
            return
        width = self._now - self._begin
        nodes, gpus, allocated, broken, pending, asked, price, waste = (round(one / width, 3) for one in self._sums)
        largest = sorted(pools, key=lambda one: (-one.gpus, one.name))
        queue = sorted(groups, key=lambda one: (-one.gpus, -one.count, one.namespace, one.workload, one.reason))
        self._fresh.append(
            FleetSample(
                at=round(self._begin, 3),
                width=round(width, 3),
                nodes=nodes,
                gpus=gpus,
                allocated=allocated,
                broken=broken,
                pending=pending,
                pending_gpus=asked,
                price=price,
                waste=waste,
                pools=tuple(largest[:MOST_POOLS]),
                queue=tuple(map(_queued, queue[:MOST_GROUPS])),
                more_pools=max(0, len(largest) - MOST_POOLS),
                more_groups=max(0, len(queue) - MOST_GROUPS),
                left_out=dict(sorted(self._left_out.items())),
            )
        )
        self._restart(self._now)

    def taken(self) -> list[HistoryRecord]:
        """Records since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def _restart(self, now: float) -> None:
        self._begin = self._now = now
        self._sums = [0.0] * 8
        self._kept.clear()
        self._left_out.clear()


def _queued(row: WaitingGroupRow) -> QueueSample:
    return QueueSample(
        namespace=row.namespace, workload=row.workload, reason=row.reason, count=row.count, gpus=row.gpus
    )


def pool_samples(costs: Mapping[str, NodeCost], pools: Iterable[PoolRow]) -> list[PoolSample]:
    """Pools with their nodes, and those without any."""
    targets = {one.name: one.target for one in pools}
    names = sorted({*costs, *targets})
    found = [(name, costs.get(name, NodeCost())) for name in names]
    return [
        PoolSample(
            name=name,
            nodes=cost.nodes,
            gpus=cost.gpus // MILLI_GPU,
            allocated=cost.allocated / MILLI_GPU,
            broken=cost.broken // MILLI_GPU,
            target=targets.get(name),
        )
        for name, cost in found
        if cost.nodes or name in targets
    ]
