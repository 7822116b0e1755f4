"""Answers about the past for the page: a range of time, and one moment with what changed around it."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from ullage.web.history.log import HistoryLog
from ullage.web.history.prometheus import PrometheusFailed, PrometheusReader
from ullage.web.history.records import Change, FleetSample
from ullage.web.history.writer import HistoryWriter

MOST_POINTS = 480
MOST_CHANGES = 400
"""Changes told of one moment: those nearest to it."""
LONGEST_RANGE = 400 * 86_400.0
LONGEST_AROUND = 86_400.0
SAMPLE_WITHIN = 600.0
"""Seconds before a moment within which the last sample still tells of it."""
_HOLE = 3.0
"""Widths of a span without a sample, from which on the history is said to have a hole."""


class RangeAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Series of a time."""

    begin: float
    end: float
    samples: list[FleetSample]
    """In order of time. Where there is none, nothing is known."""
    since: float | None
    """Start of the dashboard's own history."""
    asked_prometheus: bool = False
    trouble: str = ""


class InstantAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fleet at a moment, and what changed around it."""

    at: float
    around: float
    sample: FleetSample | None
    since: float | None
    changes: list[Change]
    """In order of time."""
    counts: dict[str, int]
    """All changes by reason, those that are not told one by one among them."""
    more: int
    """Changes that are counted only."""
    trouble: str = ""


class HistoryAnswers:
    """Answers from the log, and from a Prometheus where the log has nothing."""

    def __init__(self, writer: HistoryWriter, prometheus: PrometheusReader | None = None) -> None:
        self._writer = writer
        self._prometheus = prometheus

    async def range(self, begin: float, end: float, points: int) -> bytes:
        """Series of a time, as JSON."""

        def look(log: HistoryLog) -> tuple[list[FleetSample], float | None]:
            return log.series(begin, end, points), log.since

        found, since = await self._writer.ask(look)
        trouble, asked = self._writer.trouble, False
        if self._prometheus is not None and has_holes(found, begin, end, points):
            asked = True
            try:
                found = filled(found, await self._prometheus.series(begin, end, points), begin, end, points)
            except PrometheusFailed as error:
                trouble = str(error)
        return msgspec.json.encode(
            RangeAnswer(begin=begin, end=end, samples=found, since=since, asked_prometheus=asked, trouble=trouble)
        )

    async def at_instant(self, at: float, around: float) -> bytes:
        """A moment, as JSON."""
        trouble = self._writer.trouble
        return msgspec.json.encode(await self._writer.ask(lambda log: what_changed(log, at, around, trouble)))

    async def close(self) -> None:
        if self._prometheus is not None:
            await self._prometheus.close()


def what_changed(log: HistoryLog, at: float, around: float, trouble: str = "") -> InstantAnswer:
    """The fleet at a moment and the changes around it."""
    changes = log.changes(at - around, at + around)
    counts = Counter(one.reason for one in changes)
    for sample in log.spans(at - around, at + around):
        counts.update(sample.left_out)
    nearest = sorted(changes, key=lambda one: (abs(one.at - at), one.at, one.about))[:MOST_CHANGES]
    return InstantAnswer(
        at=at,
        around=around,
        sample=log.sample_at(at, within=SAMPLE_WITHIN),
        since=log.since,
        changes=sorted(nearest, key=lambda one: (one.at, one.about, one.reason)),
        counts=dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))),
        more=sum(counts.values()) - len(nearest),
        trouble=trouble,
    )


def has_holes(samples: Sequence[FleetSample], begin: float, end: float, points: int) -> bool:
    """True if some of a time is not covered by samples."""
    least = _HOLE * max((end - begin) / max(1, points), 60.0)
    instants = [begin, *(edge for one in samples for edge in (one.at, one.at + one.width)), end]
    return any(after - before > least for before, after in zip(instants[::2], instants[1::2], strict=True))


def filled(
    own: Sequence[FleetSample], others: Sequence[FleetSample], begin: float, end: float, points: int
) -> list[FleetSample]:
    """Own samples, and others' where there is none of ours within a span."""
    width = (end - begin) / max(1, points)
    spans = ((int((one.at - begin) // width), int((one.at + one.width - begin) // width)) for one in own)
    taken = {span for first, last in spans for span in range(first, last + 1)}
    found = [one for one in others if int((one.at - begin) // width) not in taken]
    return sorted((*own, *found), key=lambda one: one.at)
