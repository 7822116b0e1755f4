"""Recent decisions with their reasons: announced in this process, or read from Events on the API server."""

from typing import Any

from msgspec.structs import replace

from ullage.kube.client.resource import JsonObject
from ullage.observe.events import KINDS, EventMessage
from ullage.watch.announced_events import bare, read_announced
from ullage.web.view.patch import SectionTable
from ullage.web.view.rows import DecisionRow

MOST_KEPT = 250
MOST_FRESH = 5000
"""Decisions between two patches, at most."""
TOLD = "told-"
"""Beginning of the keys of decisions announced in this process."""
SAME_WITHIN = 120.0
"""Seconds between an announcement in this process and its Event, within which both are the same decision."""


class ShownDecision(DecisionRow, frozen=True, kw_only=True):
    """A decision with a key by which its repetitions are recognized."""

    key: str = ""


def read_decision(raw: JsonObject) -> ShownDecision | None:
    """Decision in an Event of one of our programs. None for other Events, and for a pool's summary of its nodes'
    Events. Raises Unreadable.

    Raises Unreadable.
    """
    told = read_announced(raw)
    if told is None or told.of_nodes:
        return None
    return ShownDecision(
        key=told.name,
        at=told.at,
        reason=told.reason,
        kind=told.kind,
        about=str(told.about),
        note=told.note,
        warning=told.warning,
        by=told.by,
        count=told.count,
        first=told.first if told.count > 1 else None,
    )


class RecentDecisions:
    """Newest decisions, each once."""

    def __init__(self) -> None:
        self.table = SectionTable()
        self._count = 0
        self._fresh: list[ShownDecision] = []
        self._of_note: dict[tuple[str, str, str], str] = {}
        """Keys by reason, object and note. An Event of something announced in this process is the same decision."""

    def record(self, announcement: EventMessage, *, at: float, by: str = "") -> None:
        """Add a decision announced in this process."""
        self._count += 1
        self.put(
            ShownDecision(
                key=f"{TOLD}{at:.0f}-{self._count}",
                at=at,
                reason=announcement.reason.value,
                kind=announcement.about.kind,
                about=str(announcement.about.key),
                note=announcement.note,
                warning=KINDS[announcement.reason].warning,
                by=by,
            )
        )

    def put(self, decision: ShownDecision) -> None:
        """Add a decision, or update one that was repeated."""
        says = (decision.reason, decision.about, decision.note)
        key = decision.key
        known = self.table.rows.get(self._of_note.get(says, ""))
        if isinstance(known, DecisionRow) and abs(decision.at - known.at) <= SAME_WITHIN:
            again = decision.key.startswith(TOLD) and self._of_note[says].startswith(TOLD)
            key = self._of_note[says]
            if again:  # announced twice in this process; an Event counts for itself
                decision = replace(decision, count=known.count + 1, first=known.first or known.at)
        self._of_note[says] = key
        if self.table.put(key, _row(decision)) and len(self._fresh) < MOST_FRESH:
            self._fresh.append(replace(decision, key=key))
        if len(self.table.rows) > MOST_KEPT:
            self._forget_oldest()

    def fresh(self) -> list[ShownDecision]:
        """Decisions that are new or were repeated since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def _forget_oldest(self) -> None:
        def age(entry: tuple[str, Any]) -> tuple[float, str]:
            return entry[1].at, entry[0]

        for key, _ in sorted(self.table.rows.items(), key=age)[: len(self.table.rows) - MOST_KEPT]:
            self.table.drop(key)
        self._of_note = {says: key for says, key in self._of_note.items() if key in self.table.rows}


def _row(decision: ShownDecision) -> DecisionRow:
    fields = {name: getattr(decision, name) for name in DecisionRow.__struct_fields__}
    return DecisionRow(**fields | {"note": bare(decision.note, decision.about)})
