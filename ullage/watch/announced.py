"""Decisions as they are announced on the API server: Events of our own programs, read. Those of others are not ours."""

from dataclasses import dataclass

from ullage.clock import Instant
from ullage.errors import Unreadable
from ullage.kube.moment import read_time
from ullage.kube.resource import JsonObject
from ullage.kube.resources import NODE_PROVISIONERS
from ullage.model.event import ObjectKey
from ullage.observe.events import EventReason

_OURS = "ullage.dev/"
"""How our programs sign their Events."""
_TOLD_OF_EACH_NODE = (EventReason.NODE_TAINTED, EventReason.NODE_SPARED, EventReason.NODE_REMOVED)
"""What is told of every node concerned, and once more of their pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """One decision and its why."""

    name: str
    """Of the Event, by which its repetition is known."""
    at: Instant
    """When it was last announced."""
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
        """It sums up for a pool what each of its nodes was told."""
        return self.kind == NODE_PROVISIONERS.kind and self.reason in _TOLD_OF_EACH_NODE


def bare(note: str, about: str) -> str:
    """A note for who sees already whom it is about."""
    return note.removeprefix(f"Successfully assigned {about} ")


def read_announced(raw: JsonObject) -> Announced | None:
    """None for Events of other programs. Raises Unreadable."""
    controller = str(raw.get("reportingController") or "")
    if not controller.startswith(_OURS):
        return None
    try:
        regarding, series = raw.get("regarding") or {}, raw.get("series") or {}
        return Announced(
            name=str(raw["metadata"]["name"]),
            at=read_time(series.get("lastObservedTime") or raw.get("eventTime")),
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
