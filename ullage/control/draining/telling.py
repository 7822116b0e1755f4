"""Drain reporter: Events on the node, on its pool's NodeProvisioner, and on every pod that was to be evicted."""

from collections.abc import Callable, Mapping

import structlog

from ullage.control.provisioning.telling import EventSink
from ullage.decide.draining.parallelism import pool_of
from ullage.model.drain_outcome import DrainOutcome, Eviction, EvictionResult, NodeNotRemoved, NodeRemoved
from ullage.model.drain_promise import RemovalPlan
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node
from ullage.model.provisioner import Provisioner
from ullage.observe.events import EventMessage, EventReason, ObjectReference

_log = structlog.get_logger("draining")


class DrainReporter:
    """Records Events of draining. `node_of` finds an observed node; `pools` returns NodeProvisioners by name."""

    def __init__(
        self,
        events: EventSink,
        node_of: Callable[[str], Node | None],
        pools: Callable[[], Mapping[str, Provisioner]],
    ) -> None:
        self._events = events
        self._node_of = node_of
        self._pools = pools
        self._pool_of: dict[str, str] = {}
        self._warned: set[tuple[str, int]] = set()

    def begun(self, promise: RemovalPlan) -> None:
        """Report that a removal has begun."""
        self._pool_of[promise.node] = pool_of(self._node_of(promise.node))
        self._tell(_node(promise.node, promise.uid), EventReason.NODE_DRAINING, f"is removed: {promise.action.why}")

    def ended(self, outcome: DrainOutcome) -> None:
        """Report the outcome of a removal."""
        name = outcome.action.node
        about, pool = _node(name, outcome.uid), self._pools().get(self._pool_of.pop(name, ""))
        match outcome:
            case NodeRemoved(left_to_owner=True):
                reason, note = EventReason.NODE_DRAINED, "is empty and cordoned, and left to its owner"
            case NodeRemoved():
                reason, note = EventReason.NODE_REMOVED, f"removed: {outcome.action.why}"
            case NodeNotRemoved(setback=setback, detail=detail):
                reason, note = EventReason.NODE_NOT_REMOVED, f"not removed: {setback.value}: {detail}"
        self._tell(about, reason, note)
        if pool is not None:
            self._tell(_pool(pool), reason, f"{name} {note}", about)

    def asked(self, eviction: Eviction) -> None:
        """Report the result of one eviction."""
        about = ObjectReference("Pod", eviction.pod, eviction.uid)
        node = ObjectReference("Node", ObjectKey("", eviction.node))
        if eviction.result is EvictionResult.EVICTED:
            self._tell(about, EventReason.POD_EVICTED, f"evicted: node {eviction.node} is removed", node)
        else:
            note = f"not evicted from node {eviction.node}: {eviction.result.value}: {eviction.detail}"
            self._tell(about, EventReason.POD_NOT_EVICTED, note.removesuffix(": "), node)

    def read(self, provisioner: Provisioner) -> None:
        """Warn of deprecated fields of a NodeProvisioner, once per generation."""
        seen = (provisioner.uid, provisioner.generation)
        if not provisioner.consolidation.deprecated or seen in self._warned:
            return
        self._warned.add(seen)
        for field in provisioner.consolidation.deprecated:
            note = f"{field} is deprecated: say spec.consolidation.maxScaleDownParallelism"
            _log.warning("a deprecated field", provisioner=provisioner.name, field=field)
            self._tell(_pool(provisioner), EventReason.DEPRECATED_FIELD, note)

    def _tell(
        self, about: ObjectReference, reason: EventReason, note: str, related: ObjectReference | None = None
    ) -> None:
        self._events.tell(EventMessage(about, reason, note, related))


def _node(name: str, uid: str) -> ObjectReference:
    return ObjectReference("Node", ObjectKey("", name), uid)


def _pool(provisioner: Provisioner) -> ObjectReference:
    return ObjectReference("NodeProvisioner", ObjectKey("", provisioner.name), provisioner.uid, "gpu.scheduling/v1")
