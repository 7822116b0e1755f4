"""Events of our own programs, read from the API server: decisions as they were announced. Other programs' are
skipped."""

from dataclasses import dataclass

from ullage.clock import Instant
from ullage.errors import Unreadable
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import NODE_PROVISIONERS
from ullage.kube.timestamps import read_time
from ullage.model.fact_event import ObjectKey
from ullage.observe.events import EventReason

_OURS = "ullage.dev/"
"""Prefix of our programs' names as reporting controllers of Events."""
_TOLD_OF_EACH_NODE = (EventReason.NODE_TAINTED_FOR_DELETION, EventReason.NODE_UNTAINTED, EventReason.NODE_REMOVED)
"""Reasons announced once for each node concerned, and once more for its pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedEvent:
    """Event of one of our programs: a decision and its why."""

    name: str
    """Name of the Event, by which its repetition is recognised."""
    at: Instant
    """Time of the last announcement."""
    first: Instant
    """Time of the first announcement."""
    by: str
    """The program: scheduler, controller, agent."""
    reason: str
    kind: str
    about: ObjectKey
    note: str
    warning: bool
    count: int

    @property
    def of_nodes(self) -> bool:
        """True if it sums up for a pool what was announced for each of its nodes."""
        return self.kind == NODE_PROVISIONERS.kind and self.reason in _TOLD_OF_EACH_NODE


def bare(note: str, about: str) -> str:
    """Return a note without the name of its object, for views that show the object anyway."""
    return note.removeprefix(f"Successfully assigned {about} ")


def read_announced(raw: JsonObject) -> AnnouncedEvent | None:
    """None for Events of other programs. Raises Unreadable."""
    controller = str(raw.get("reportingController") or "")
    if not controller.startswith(_OURS):
        return None
    try:
        regarding, series = raw.get("regarding") or {}, raw.get("series") or {}
        return AnnouncedEvent(
            name=str(raw["metadata"]["name"]),
            at=read_time(series.get("lastObservedTime") or raw.get("eventTime")),
            first=read_time(raw.get("eventTime") or series.get("lastObservedTime")),
            by=controller.removeprefix(_OURS),
            reason=str(raw.get("reason") or ""),
            kind=str(regarding.get("kind") or ""),
            about=ObjectKey(str(regarding.get("namespace") or ""), str(regarding.get("name") or "")),
            note=str(raw.get("note") or ""),
            warning=raw.get("type") == "Warning",
            count=int(series.get("count") or 1),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"an Event of {controller} that makes no sense ({error})") from error
