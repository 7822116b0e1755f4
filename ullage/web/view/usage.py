"""Usage and cost of GPUs: total, idle, broken and wasted; now, summed up, and over time."""

from dataclasses import dataclass, field

import msgspec

from ullage.model.device import MILLI_GPU
from ullage.model.provisioner import MICROS
from ullage.web.view.patch import SectionTable
from ullage.web.view.rows import GpuCell, NodeRow, Sample

HOUR = 3600.0
FIRST_WIDTH = 2.0
"""Seconds of the first samples. Doubled whenever there are too many."""
MOST_SAMPLES = 240


class NodeCost(msgspec.Struct, frozen=True):
    """GPUs and cost of one node or of all.

    GPUs are in thousandths, money in millionths per hour, so that sums are exact.
    """

    nodes: int = 0
    gpus: int = 0
    allocated: int = 0
    broken: int = 0
    """GPUs that cannot be used, held or not."""
    price: int = 0
    waste: int = 0
    unpriced: int = 0

    @property
    def idle(self) -> int:
        return self.gpus - self.allocated - self.broken

    def plus(self, other: "NodeCost", sign: int = 1) -> "NodeCost":
        return NodeCost(
            self.nodes + sign * other.nodes,
            self.gpus + sign * other.gpus,
            self.allocated + sign * other.allocated,
            self.broken + sign * other.broken,
            self.price + sign * other.price,
            self.waste + sign * other.waste,
            self.unpriced + sign * other.unpriced,
        )


def worth_of(row: NodeRow, price: int) -> NodeCost:
    """NodeCost of a node from its row and the price of its pool. GPUs not yet usable are not counted."""
    usable = [place for place, state in enumerate(row.states) if state != GpuCell.COMING]
    if not usable:
        return NodeCost(nodes=1, price=price, waste=price if row.states else 0)
    taken = row.taken or tuple(0 if state == GpuCell.FREE else MILLI_GPU for state in row.states)
    broken = sum(row.states[place] == GpuCell.UNHEALTHY for place in usable)
    allocated = sum(min(taken[place], MILLI_GPU) for place in usable if row.states[place] != GpuCell.UNHEALTHY)
    gpus = len(usable) * MILLI_GPU
    waste = price * (gpus - allocated) // gpus
    return NodeCost(1, gpus, allocated, broken * MILLI_GPU, price, waste, int(not price))


@dataclass(slots=True)
class _Span:
    """A sample that is still being summed."""

    at: float
    seconds: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0] * 6)


class UsageMeter:
    """Sums over time. Values hold until the next call of `advance`."""

    def __init__(self) -> None:
        self.series = SectionTable()
        self.gpu_hours = self.idle_gpu_hours = self.cost = self.wasted = 0.0
        self.since: float | None = None
        self._now = 0.0
        self._width = FIRST_WIDTH
        self._span: _Span | None = None

    def advance(self, worth: NodeCost, pending: int, *, now: float) -> None:
        """Count the time since the last call, during which these values held."""
        if self.since is None or self._span is None:
            self.since = self._now = now
            self._span = _Span(now)
            return
        if now < self._now:  # the clock went back: go on from there
            self._now, self._span = now, _Span(now)
        if now == self._now:
            return
        hours = (now - self._now) / HOUR
        self.gpu_hours += hours * worth.gpus / MILLI_GPU
        self.idle_gpu_hours += hours * (worth.idle + worth.broken) / MILLI_GPU
        price, waste = worth.price / MICROS, worth.waste / MICROS
        self.cost += hours * price
        self.wasted += hours * waste
        gpus = [one / MILLI_GPU for one in (worth.gpus, worth.allocated, worth.broken)]
        self._spread([*gpus, float(pending), price, waste], now)

    def _spread(self, values: list[float], now: float) -> None:
        """Spread values over the samples they fall into."""
        while self._span is not None and self._now < now:
            span = self._span
            until = min(now, span.at + self._width)
            seconds = until - self._now
            span.seconds += seconds
            span.sums = [total + seconds * value for total, value in zip(span.sums, values, strict=True)]
            self._now = until
            self._show(span)
            if until >= span.at + self._width:
                self._span = _Span(until)
                if len(self.series.rows) >= MOST_SAMPLES:
                    self._coarsen()

    def _show(self, span: _Span) -> None:
        means = [round(total / span.seconds, 3) for total in span.sums] if span.seconds else span.sums
        gpus, allocated, broken, pending, price, waste = means
        sample = Sample(
            at=span.at,
            width=span.seconds,
            gpus=gpus,
            allocated=allocated,
            broken=broken,
            pending=pending,
            price=price,
            waste=waste,
        )
        self.series.put(_key(span.at), sample)

    def _coarsen(self) -> None:
        """Merge each two samples into one."""
        self._width *= 2
        old = sorted((row for row in self.series.rows.values() if isinstance(row, Sample)), key=lambda row: row.at)
        for key in list(self.series.rows):
            self.series.drop(key)
        for first, second in zip(old[::2], old[1::2], strict=False):
            self.series.put(_key(first.at), _joined(first, second))
        if len(old) % 2:
            self.series.put(_key(old[-1].at), old[-1])


def _joined(one: Sample, other: Sample) -> Sample:
    width = one.width + other.width
    mean = {
        name: round((getattr(one, name) * one.width + getattr(other, name) * other.width) / width, 3)
        for name in ("gpus", "allocated", "broken", "pending", "price", "waste")
    }
    return Sample(at=one.at, width=width, **mean)


def _key(at: float) -> str:
    return f"{at:.1f}"
