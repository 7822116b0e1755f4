"""Reports steps of pools: one Event on the NodeProvisioner for each step, and one on every node concerned."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ullage.decide.provisioning.pool_nodes import nodes_in_words, some_of
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import TaintForDeletion, TerminateInstance, Untaint
from ullage.model.node import Node
from ullage.model.outcomes import (
    LaunchFailed,
    NodesLaunched,
    PoolActionDone,
    PoolActionFailed,
    PoolFailure,
    PoolOutcome,
)
from ullage.model.provisioner import CloudFailure, Provisioner
from ullage.observe.events import EventMessage, EventReason, ObjectReference

_NO_MACHINES = (CloudFailure.CAPACITY, CloudFailure.QUOTA)
_WORTH_REPORTING = (PoolFailure.CLOUD_FAILED, PoolFailure.NO_INSTANCE)
"""Failures an operator may have to act on. The others are part of a node's ordinary life."""


class EventSink(Protocol):
    """Receiver of Event messages."""

    def record(self, announcement: EventMessage) -> None: ...


@dataclass(frozen=True, slots=True)
class _Note:
    """Event about one node."""

    reason: EventReason
    verb: str
    name: str
    """Name of the node, or of the instance that never became one."""
    is_node: bool
    why: str


def provisioner_subject(provisioner: Provisioner) -> ObjectReference:
    return ObjectReference("NodeProvisioner", ObjectKey("", provisioner.name), provisioner.uid, "gpu.scheduling/v1")


class PoolReporter:
    """Reporter of a provisioner. `node_of` finds a node that exists, or did a moment ago."""

    def __init__(self, events: EventSink, node_of: Callable[[str], Node | None]) -> None:
        self._events = events
        self._node_of = node_of

    def stepped(self, provisioner: Provisioner, outcomes: Sequence[PoolOutcome]) -> None:
        """Report the outcomes of one step."""
        about = provisioner_subject(provisioner)
        notes: list[_Note] = []
        for outcome in outcomes:
            match outcome:
                case NodesLaunched():
                    self._bought(about, outcome)
                case LaunchFailed(failure=failure, detail=detail):
                    self._failed(about, failure or CloudFailure.UNKNOWN, outcome.action.count, detail)
                case PoolActionDone() | PoolActionFailed():
                    notes += _noted(outcome)
        for note in notes:
            if note.is_node:
                self._emit(self._node(note.name), note.reason, f"{note.verb}: {note.why}", about)
        for reason in dict.fromkeys(note.reason for note in notes):
            self._emit(about, reason, _summary([note for note in notes if note.reason is reason]))

    def _bought(self, about: ObjectReference, outcome: NodesLaunched) -> None:
        if outcome.instances:
            names = some_of([one.id for one in outcome.instances])
            self._emit(
                about,
                EventReason.NODES_LAUNCHED,
                f"bought {nodes_in_words(len(outcome.instances))} ({names}): {outcome.action.why}",
            )
        if outcome.failure is not None:
            self._failed(about, outcome.failure, outcome.action.count - len(outcome.instances), outcome.detail)

    def _failed(self, about: ObjectReference, failure: CloudFailure, count: int, detail: str) -> None:
        reason = EventReason.CAPACITY_BLOCKED if failure in _NO_MACHINES else EventReason.SCALE_UP_FAILED
        self._emit(about, reason, f"{nodes_in_words(count)} not bought: {failure.value}: {detail}")

    def _node(self, name: str) -> ObjectReference:
        node = self._node_of(name)
        return ObjectReference("Node", ObjectKey("", name), "" if node is None else node.uid)

    def _emit(
        self, about: ObjectReference, reason: EventReason, note: str, related: ObjectReference | None = None
    ) -> None:
        self._events.record(EventMessage(about, reason, note, related))


def _noted(outcome: PoolActionDone | PoolActionFailed) -> list[_Note]:
    action = outcome.action
    if isinstance(outcome, PoolActionFailed):
        if outcome.setback not in _WORTH_REPORTING or not isinstance(action, TerminateInstance):
            return []
        name = action.node or action.instance
        why = f"{outcome.setback.value}: {outcome.detail}"
        return [_Note(EventReason.NODE_NOT_REMOVED, "not removed", name, bool(action.node), why)]
    match action:
        case TaintForDeletion():
            return [
                _Note(EventReason.NODE_TAINTED_FOR_DELETION, "tainted to be removed", action.node, True, action.why)
            ]
        case Untaint():
            return [_Note(EventReason.NODE_UNTAINTED, "no longer to be removed", action.node, True, action.why)]
        case TerminateInstance(lost=True, departed=True):
            name = action.node or action.instance
            return [_Note(EventReason.INSTANCE_WITHOUT_NODE, "given back", name, bool(action.node), action.why)]
        case TerminateInstance(lost=True):
            name = action.node or action.instance
            return [_Note(EventReason.NODE_FAILED_TO_REGISTER, "given up", name, bool(action.node), action.why)]
        case TerminateInstance():
            return [_Note(EventReason.NODE_REMOVED, "removed", action.node, True, action.why)]


def _summary(notes: Sequence[_Note]) -> str:
    names = some_of([note.name for note in notes])
    return f"{nodes_in_words(len(notes))} {notes[0].verb} ({names}): {notes[0].why}"
