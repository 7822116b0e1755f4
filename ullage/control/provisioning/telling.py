"""Says what was done to a pool: one Event on its NodeProvisioner for each step, and one on every node concerned."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ullage.model.event import ObjectKey
from ullage.model.node import Node
from ullage.model.pool_action import Deprovision, Doom, Spare
from ullage.model.pool_outcome import Bought, NotBought, PoolDone, PoolNotDone, PoolOutcome, PoolSetback
from ullage.model.provisioner import Failure, Provisioner
from ullage.observe.events import Announcement, EventReason, Subject

_MOST_NAMED = 5
_NO_MACHINES = (Failure.CAPACITY, Failure.QUOTA)
_WORTH_TELLING = (PoolSetback.CLOUD_FAILED, PoolSetback.NO_INSTANCE)
"""Setbacks an operator may have to do something about. The others are a node's ordinary life."""


class Recorder(Protocol):
    """Takes what is told."""

    def tell(self, announcement: Announcement) -> None: ...


@dataclass(frozen=True, slots=True)
class _Note:
    """What became of one node."""

    reason: EventReason
    verb: str
    name: str
    """Of the node, or of the instance that never became one."""
    is_node: bool
    why: str


class PoolTeller:
    """The voice of a provisioner. `node_of` finds a node that is there, or was a moment ago."""

    def __init__(self, events: Recorder, node_of: Callable[[str], Node | None]) -> None:
        self._events = events
        self._node_of = node_of

    def stepped(self, provisioner: Provisioner, outcomes: Sequence[PoolOutcome]) -> None:
        """What came of one step."""
        about = Subject("NodeProvisioner", ObjectKey("", provisioner.name), provisioner.uid, "gpu.scheduling/v1")
        notes: list[_Note] = []
        for outcome in outcomes:
            match outcome:
                case Bought():
                    self._bought(about, outcome)
                case NotBought(failure=failure, detail=detail):
                    self._failed(about, failure or Failure.UNKNOWN, outcome.action.count, detail)
                case PoolDone() | PoolNotDone():
                    notes += _noted(outcome)
        for note in notes:
            if note.is_node:
                self._tell(self._node(note.name), note.reason, f"{note.verb}: {note.why}", about)
        for reason in dict.fromkeys(note.reason for note in notes):
            self._tell(about, reason, _summary([note for note in notes if note.reason is reason]))

    def _bought(self, about: Subject, outcome: Bought) -> None:
        if outcome.instances:
            names = _names([one.id for one in outcome.instances])
            self._tell(
                about,
                EventReason.NODES_BOUGHT,
                f"bought {_nodes(len(outcome.instances))} ({names}): {outcome.action.why}",
            )
        if outcome.failure is not None:
            self._failed(about, outcome.failure, outcome.action.count - len(outcome.instances), outcome.detail)

    def _failed(self, about: Subject, failure: Failure, count: int, detail: str) -> None:
        reason = EventReason.CAPACITY_BLOCKED if failure in _NO_MACHINES else EventReason.PURCHASE_FAILED
        self._tell(about, reason, f"{_nodes(count)} not bought: {failure.value}: {detail}")

    def _node(self, name: str) -> Subject:
        node = self._node_of(name)
        return Subject("Node", ObjectKey("", name), "" if node is None else node.uid)

    def _tell(self, about: Subject, reason: EventReason, note: str, related: Subject | None = None) -> None:
        self._events.tell(Announcement(about, reason, note, related))


def _noted(outcome: PoolDone | PoolNotDone) -> list[_Note]:
    action = outcome.action
    if isinstance(outcome, PoolNotDone):
        if outcome.setback not in _WORTH_TELLING or not isinstance(action, Deprovision):
            return []
        name = action.node or action.instance
        why = f"{outcome.setback.value}: {outcome.detail}"
        return [_Note(EventReason.NODE_NOT_REMOVED, "not removed", name, bool(action.node), why)]
    match action:
        case Doom():
            return [_Note(EventReason.NODE_TAINTED, "tainted to be removed", action.node, True, action.why)]
        case Spare():
            return [_Note(EventReason.NODE_SPARED, "no longer to be removed", action.node, True, action.why)]
        case Deprovision(lost=True):
            name = action.node or action.instance
            return [_Note(EventReason.NODE_NEVER_JOINED, "given up", name, bool(action.node), action.why)]
        case Deprovision():
            return [_Note(EventReason.NODE_REMOVED, "removed", action.node, True, action.why)]


def _summary(notes: Sequence[_Note]) -> str:
    names = _names([note.name for note in notes])
    return f"{_nodes(len(notes))} {notes[0].verb} ({names}): {notes[0].why}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
