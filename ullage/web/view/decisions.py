"""The last decisions with their why: told in process, or read from Events on the API server."""

from typing import Any

from ullage.kube.resource import JsonObject
from ullage.observe.events import KINDS, Announcement
from ullage.watch.announced import bare, read_announced
from ullage.web.view.patch import Table
from ullage.web.view.rows import DecisionRow

MOST_KEPT = 250
SAME_WITHIN = 120.0
"""Seconds between what was told in process and its Event, in which the two are one."""


class Decision(DecisionRow, frozen=True, kw_only=True):
    """A decision with a name of its own, by which its repetition is known."""

    key: str = ""


def read_decision(raw: JsonObject) -> Decision | None:
    """What one of our programs told by an Event; None where the page tells it already. Raises Unreadable."""
    told = read_announced(raw)
    if told is None or told.of_nodes:
        return None
    return Decision(
        key=told.name,
        at=told.at,
        reason=told.reason,
        kind=told.kind,
        about=str(told.about),
        note=told.note,
        warning=told.warning,
        by=told.by,
        count=told.count,
    )


class Decisions:
    """The newest, each once."""

    def __init__(self) -> None:
        self.table = Table()
        self._told = 0
        self._of_note: dict[tuple[str, str, str], str] = {}
        """Keys by what they say of whom: an Event of what was told in process is the same decision."""

    def tell(self, announcement: Announcement, *, at: float, by: str = "") -> None:
        """Somebody in this process told it."""
        self._told += 1
        self.put(
            Decision(
                key=f"told-{self._told}",
                at=at,
                reason=announcement.reason.value,
                kind=announcement.about.kind,
                about=str(announcement.about.key),
                note=announcement.note,
                warning=KINDS[announcement.reason].warning,
                by=by,
            )
        )

    def put(self, decision: Decision) -> None:
        """A new one, or one that is there and has happened again."""
        says = (decision.reason, decision.about, decision.note)
        key = decision.key
        known = self.table.rows.get(self._of_note.get(says, ""))
        if isinstance(known, DecisionRow) and abs(decision.at - known.at) <= SAME_WITHIN:
            key = self._of_note[says]
        self._of_note[says] = key
        self.table.put(key, _row(decision))
        if len(self.table.rows) > MOST_KEPT:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        def age(entry: tuple[str, Any]) -> tuple[float, str]:
            return entry[1].at, entry[0]

        for key, _ in sorted(self.table.rows.items(), key=age)[: len(self.table.rows) - MOST_KEPT]:
            self.table.drop(key)
        self._of_note = {says: key for says, key in self._of_note.items() if key in self.table.rows}


def _row(decision: Decision) -> DecisionRow:
    fields = {name: getattr(decision, name) for name in DecisionRow.__struct_fields__}
    return DecisionRow(**fields | {"note": bare(decision.note, decision.about)})
