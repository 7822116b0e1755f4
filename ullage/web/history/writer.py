"""History in a thread of its own: neither the loop that watches the cluster nor the one that serves pages waits for a
disk. Records are handed over and forgotten; questions are awaited.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import structlog

from ullage.clock import Clock
from ullage.web.history.log import JUMP_SECONDS, HistoryLog
from ullage.web.history.records import Change, ChangeSource, HistoryRecord

T = TypeVar("T")

MOST_QUEUED = 64
"""Batches that may wait for the disk. Further ones are dropped and counted."""
EVENTS_LAST = 7200.0
"""Seconds for which API servers keep Events, at most: those may be read again after a restart."""
GAP_SECONDS = 120.0
"""Seconds without a record after which the history is said to have a gap."""

_log = structlog.get_logger("history")


class HistoryWriter:
    """Owner of a log. Methods may be called from any thread, except `ask`: from a loop."""

    def __init__(self, log: HistoryLog, clock: Clock, *, notes: Sequence[str] = ()) -> None:
        """`notes` are sentences on what was found when the store was opened."""
        self._history = log
        self._worker = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="history")
        self._lock = threading.Lock()
        self._queued = 0
        self._unqueued = 0
        self._trouble = ""
        now, steady = clock.now(), clock.steady()
        self._last = (float(now), float(steady))
        self._known = log.decisions_since(now - EVENTS_LAST)
        self._begin([*notes, *log.notes], log.last, float(now))
        log.notes.clear()

    @property
    def trouble(self) -> str:
        """Reason why the history is not kept just now; empty if it is."""
        return self._trouble

    def keep(self, records: Sequence[HistoryRecord], *, now: float, steady: float) -> None:
        """Add records. Never waits."""
        fresh = [one for one in records if not self._is_known(one)]
        fresh += self._jumped(now, steady)
        if not fresh:
            return
        with self._lock:
            if self._queued >= MOST_QUEUED:
                self._unqueued += len(fresh)
                return
            self._queued += 1
        self._worker.submit(self._append, fresh, now, steady)

    async def ask(self, question: Callable[[HistoryLog], T]) -> T:
        """Answer of the log."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, question, self._history)

    def close(self) -> None:
        """Write what is queued, and close the log."""
        self._worker.submit(self._history.close)
        self._worker.shutdown(wait=True)

    def _append(self, records: list[HistoryRecord], now: float, steady: float) -> None:
        """Write records. In its own thread no loop runs, and so a clock of a loop has no time there."""
        with self._lock:
            self._queued -= 1
            missed, self._unqueued = self._unqueued, 0
        if missed:
            records = [*records, _note(now, "RecordsDropped", f"{missed} records were dropped: the disk is slow")]
        try:
            self._history.append(records, now=now, steady=steady)
        except Exception as error:  # noqa: BLE001 - the page goes on without a history
            self._set_trouble(f"a bug: {error}")
            _log.exception("the history could not be written", error=str(error))
            return
        self._set_trouble(self._history.trouble)
        notes, self._history.notes = self._history.notes, []
        if notes:
            self._history.append([_note(now, "HistoryMended", note) for note in notes], now=now)
            _log.warning("the history was mended", notes=notes)

    def _set_trouble(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble:
                _log.warning("the history is not kept", why=trouble)
            else:
                _log.info("the history is kept again", dropped=self._history.dropped)

    def _begin(self, notes: list[str], last: float | None, now: float) -> None:
        found = [_note(now, "HistoryMended", note) for note in notes]
        if last is not None and now - last > GAP_SECONDS:
            found.append(_note(now, "HistoryGap", "nothing was recorded before this", first=last))
        elif last is not None and last - now > JUMP_SECONDS:
            found.append(
                _note(now, "ClockJumpedBack", f"the history goes on {last - now:.0f} s before its last record")
            )
        for one in found:
            _log.info("history", what=one.reason, note=one.note)
        if found:
            self._history.append(found, now=now)

    def _is_known(self, one: HistoryRecord) -> bool:
        """True for a decision that is in the log already: Events are listed anew at every start."""
        if not (isinstance(one, Change) and one.source is ChangeSource.DECISION and self._known):
            return False
        return (one.key, one.at) in self._known

    def _jumped(self, now: float, steady: float) -> list[HistoryRecord]:
        before, passed = self._last[0], steady - self._last[1]
        self._last = (now, steady)
        jump = now - before - passed
        if abs(jump) <= JUMP_SECONDS:
            return []
        word, way = ("ClockJumpedBack", "back") if jump < 0 else ("ClockJumpedAhead", "ahead")
        return [_note(now, word, f"the clock of the dashboard jumped {way} by {abs(jump):.0f} s", first=before)]


def _note(at: float, reason: str, note: str, *, first: float | None = None) -> Change:
    warning = reason != "HistoryGap"
    return Change(at=at, source=ChangeSource.DASHBOARD, reason=reason, note=note, warning=warning, first=first)
