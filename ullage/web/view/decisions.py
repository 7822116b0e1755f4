"""The last decisions with their why: told in process, or read from Events on the API server."""

from typing import Any

from ullage.errors import Unreadable
from ullage.kube.moment import read_time
from ullage.kube.resource import JsonObject
from ullage.observe.events import KINDS, Announcement
from ullage.web.view.patch import Table
from ullage.web.view.rows import DecisionRow

OURS = "ullage.dev/"
"""How our programs are named in Events."""
MOST_KEPT = 250
SAME_WITHIN = 120.0
"""Seconds between what was told in process and its Event, in which the two are one."""


class Decision(DecisionRow, frozen=True, kw_only=True):
    """A decision with a name of its own, by which its repetition is known."""

    key: str = ""


def read_decision(raw: JsonObject) -> Decision | None:
    """What one of our programs told by an Event; None for Events of others. Raises Unreadable."""
    controller = str(raw.get("reportingController") or "")
    if not controller.startswith(OURS):
        return None
    try:
        meta, regarding, series = raw["metadata"], raw.get("regarding") or {}, raw.get("series") or {}
        where, name = regarding.get("namespace", ""), regarding.get("name", "")
        return Decision(
            key=str(meta["name"]),
            at=read_time(series.get("lastObservedTime") or raw.get("eventTime")),
            reason=str(raw.get("reason") or ""),
            kind=str(regarding.get("kind") or ""),
            about=f"{where}/{name}" if where else str(name),
            note=str(raw.get("note") or ""),
            warning=raw.get("type") == "Warning",
            by=controller.removeprefix(OURS),
            count=int(series.get("count") or 1),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"an Event of {controller} that makes no sense ({error})") from error


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
    fields = DecisionRow.__struct_fields__
    return DecisionRow(**{name: getattr(decision, name) for name in fields})
