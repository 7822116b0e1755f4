"""Bounded log of samples and changes over a store: appended in order of arrival, found by time.

Times need not grow: a clock may jump. An index in memory has the time and place of every record. Not for threads:
`writer` calls it from one.
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ullage.web.history.records import (
    FIGURES,
    HEADER,
    Change,
    ChangeSource,
    FleetSample,
    HistoryRecord,
    read,
    written,
)
from ullage.web.history.store import HistoryStore

KEPT_PART = 0.75
"""Part of the size that is left when the history was cropped, so that it is not cropped at every record."""
SAMPLES_PART = 0.6
"""Part of the size that samples may take of it. Changes are given up before samples."""
AGE_CHECK_SECONDS = 3600.0
"""Seconds between two looks for records that are too old."""
JUMP_SECONDS = 60.0
"""Seconds by which the clock may differ from what has passed, before it is said to have jumped."""
_CHUNK = 1 << 20


class _Kind(IntEnum):
    SAMPLE = 0
    CHANGE = 1


@dataclass(frozen=True, slots=True)
class HistoryBounds:
    """Largest size in bytes, and age in seconds."""

    max_size: int
    max_age: float


class HistoryLog:
    """All records, found by time."""

    def __init__(self, store: HistoryStore, bounds: HistoryBounds) -> None:
        self._store = store
        self._bounds = bounds
        self.trouble = ""
        """Reason why nothing is written; empty if all is well."""
        self.notes: list[str] = []
        """Sentences on what was found and mended since they were last taken."""
        self.dropped = 0
        """Records that could not be written."""
        self._checked: tuple[float, float] | None = None
        """Clock and steady time of the last check of ages."""
        self._forget()
        self._load()

    @property
    def size(self) -> int:
        return self._store.size

    def __len__(self) -> int:
        return len(self._at)

    @property
    def last(self) -> float | None:
        """Time of the newest record that was appended or loaded last; None if there is none."""
        return self._at[-1] if self._at else None

    @property
    def since(self) -> float | None:
        """Start of the oldest sample."""
        return float(min(self._sample_at)) if self._sample_at else None

    def append(self, records: Sequence[HistoryRecord], *, now: float, steady: float = 0.0) -> None:
        """Add records. A failure is kept in `trouble`, and they are lost: the next ones are tried again.

        `steady` are seconds that only go forward. Records go by age only after many of them.
        """
        lines = [written(one) for one in records]
        try:
            if not self._store.is_ours():
                self._lost()
            self._store.append(b"".join(lines))
        except OSError as error:
            self.trouble = error.strerror or str(error)
            self.dropped += len(records)
            return
        self.trouble = ""
        place = self._store.size - sum(map(len, lines))
        for one, line in zip(records, lines, strict=True):
            self._index(one, place, len(line))
            place += len(line)
        if self._store.size > self._bounds.max_size or self._has_old(now, steady):
            self._crop(now)

    def changes(self, begin: float, end: float) -> list[Change]:
        """Changes of a time, in order. Of an Event that was repeated, the last record within it."""
        found: dict[tuple[str, ...], Change] = {}
        for number in self._within(begin, end, _Kind.CHANGE):
            one = self._read(number)
            if isinstance(one, Change):
                same = (one.key,) if one.key else (str(number), "")
                known = found.get(same)
                if known is None or known.at <= one.at:
                    found[same] = one
        return sorted(found.values(), key=lambda one: (one.at, one.about, one.reason))

    def spans(self, begin: float, end: float) -> Iterator[FleetSample]:
        """Samples that begin within a time, whole."""
        for number in self._within(begin, end, _Kind.SAMPLE):
            one = self._read(number)
            if isinstance(one, FleetSample):
                yield one

    def decisions_since(self, begin: float) -> set[tuple[str, float]]:
        """Event names and times of decisions, so that a list of Events read again adds none twice."""
        found = (self._read(number) for number in self._within(begin, float("inf"), _Kind.CHANGE))
        return {(one.key, one.at) for one in found if isinstance(one, Change) and one.source is ChangeSource.DECISION}

    def sample_at(self, instant: float, *, within: float) -> FleetSample | None:
        """Sample of the span that holds a moment, else the last one before it, at most `within` seconds."""
        times = self._numbers(self._sample_at)
        near = np.flatnonzero((times <= instant) & (times >= instant - within))
        if not len(near):
            return None
        best = int(near[np.argmax(times[near])])
        found = self._read(self._sample_number[best])
        return found if isinstance(found, FleetSample) else None

    def series(self, begin: float, end: float, points: int) -> list[FleetSample]:
        """Means over at most `points` spans of equal width; spans without a sample are left out."""
        times = self._numbers(self._sample_at)
        figures = self._numbers(self._figures).reshape(-1, len(FIGURES) + 1)
        inside = np.flatnonzero((times + figures[:, -1] > begin) & (times < end))
        return merged(times[inside], figures[inside], begin, end, points)

    def close(self) -> None:
        self._store.close()

    def _forget(self) -> None:
        self._at: array[float] = array("d")
        self._offset: array[int] = array("q")
        self._length: array[int] = array("l")
        self._kind: array[int] = array("b")
        self._sample_at: array[float] = array("d")
        self._sample_number: array[int] = array("q")
        self._figures: array[float] = array("d")

    def _numbers(self, column: "array[Any]") -> "npt.NDArray[Any]":
        return np.array(column, dtype=np.float64)

    def _index(self, one: HistoryRecord, offset: int, length: int) -> None:
        self._at.append(one.at)
        self._offset.append(offset)
        self._length.append(length)
        self._kind.append(_Kind.SAMPLE if isinstance(one, FleetSample) else _Kind.CHANGE)
        if isinstance(one, FleetSample):
            self._sample_at.append(one.at)
            self._sample_number.append(len(self._at) - 1)
            self._figures.extend([*(getattr(one, name) for name in FIGURES), one.width])

    def _within(self, begin: float, end: float, kind: _Kind) -> list[int]:
        times, kinds = np.array(self._at), np.array(self._kind)
        found: list[int] = np.flatnonzero((times >= begin) & (times <= end) & (kinds == kind)).tolist()
        return found

    def _read(self, number: int) -> HistoryRecord | None:
        with suppress(OSError, msgspec.DecodeError):
            return read(self._store.read(self._offset[number], self._length[number]))
        return None

    def _load(self) -> None:
        """Read all records. What is torn at the end is cut off, what cannot be read is passed over; both are noted."""
        offset, unread, good = len(HEADER), 0, len(HEADER)
        for line in _lines(self._store, offset):
            whole = line.endswith(b"\n")
            try:
                self._index(read(line), offset, len(line))
            except (msgspec.DecodeError, UnicodeDecodeError):
                unread += whole
            offset += len(line)
            good = offset if whole else good
        if good < offset:
            while self._offset and self._offset[-1] >= good:
                self._drop_last()
            self.notes.append(f"the last line was torn ({offset - good} bytes) and is dropped")
            with suppress(OSError):
                self._store.cut(good)
        if unread:
            self.notes.append(f"lines that cannot be read are passed over: {unread}")

    def _drop_last(self) -> None:
        if self._kind[-1] == _Kind.SAMPLE:
            self._sample_at.pop()
            self._sample_number.pop()
            del self._figures[-len(FIGURES) - 1 :]
        for column in (self._at, self._offset, self._length, self._kind):
            column.pop()

    def _lost(self) -> None:
        """Begin anew: somebody removed or changed the file. Raises OSError."""
        self.notes.append("the file was removed or changed by another program, and is begun anew")
        self._store.replace([HEADER])
        self._forget()

    def _has_old(self, now: float, steady: float) -> bool:
        """True if records are too old. Asked once an hour, and only of a clock that did not jump since."""
        if self._checked is None or steady < self._checked[1]:
            self._checked = now, steady
            return False
        passed = steady - self._checked[1]
        if passed < AGE_CHECK_SECONDS:
            return False
        jumped = abs(now - self._checked[0] - passed) > JUMP_SECONDS
        self._checked = now, steady
        return not jumped and bool(self._at) and min(self._at) < now - self._bounds.max_age

    def _crop(self, now: float) -> None:
        """Keep what is newest within the bounds: samples up to their part, then changes. In order of arrival."""
        too_old = now - self._bounds.max_age if self._store.size <= self._bounds.max_size else float("-inf")
        keep: set[int] = set()
        room = self._bounds.max_size * KEPT_PART - len(HEADER)
        left = {_Kind.SAMPLE: self._bounds.max_size * SAMPLES_PART, _Kind.CHANGE: room}
        for kind in (_Kind.SAMPLE, _Kind.CHANGE):
            for number in range(len(self._at) - 1, -1, -1):
                if self._kind[number] != kind or self._at[number] < too_old:
                    continue
                left[kind] -= self._length[number]
                room -= self._length[number]
                if min(left[kind], room) < 0:
                    room += self._length[number]
                    break
                keep.add(number)
        kept = sorted(keep)
        lines = [self._store.read(self._offset[number], self._length[number]) for number in kept]
        try:
            self._store.replace([HEADER, *lines])
        except OSError as error:
            self.trouble = f"it cannot be cropped: {error.strerror or error}"
            self._stop_growing()
            return
        self._forget()
        place = len(HEADER)
        for line in lines:
            with suppress(msgspec.DecodeError):
                self._index(read(line), place, len(line))
            place += len(line)

    def _stop_growing(self) -> None:
        """Forget everything where there is no room to crop: the size is promised, the past is not."""
        if self._store.size <= 2 * self._bounds.max_size:
            return
        with suppress(OSError):
            self._store.cut(len(HEADER))
            self._forget()


def _lines(store: HistoryStore, offset: int) -> Iterator[bytes]:
    """Lines with their ends; the last one may lack it."""
    rest = b""
    while part := store.read(offset, _CHUNK):
        offset += len(part)
        *whole, rest = (rest + part).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest


def merged(
    times: "npt.NDArray[Any]", figures: "npt.NDArray[Any]", begin: float, end: float, points: int
) -> list[FleetSample]:
    """Samples merged into spans of equal width: means, weighted by the seconds each sample lasted."""
    if end <= begin or not len(times):
        return []
    width = (end - begin) / max(1, points)
    spans = np.clip(((times - begin) // width).astype(int), 0, max(0, points - 1))
    found: list[FleetSample] = []
    for span in np.unique(spans).tolist():
        mine = spans == span
        seconds = figures[mine, -1]
        weights = seconds if seconds.sum() > 0 else np.ones(len(seconds))
        means = np.average(figures[mine, :-1], axis=0, weights=weights).round(3).tolist()
        start = float(times[mine].min())
        until = float((times[mine] + seconds).max())
        named: dict[str, Any] = dict(zip(FIGURES, means, strict=True))
        found.append(FleetSample(at=start, width=round(until - start, 3), **named))
    return found
