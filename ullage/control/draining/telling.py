"""Says what was done: Events on the node, on its pool's NodeProvisioner, and on every pod that was asked to go."""

from collections.abc import Callable, Mapping

import structlog

from ullage.control.provisioning.telling import Recorder
from ullage.decide.drain.turns import pool_of
from ullage.model.drain_outcome import DrainOutcome, Eviction, EvictionResult, NodeGone, NodeStays
from ullage.model.drain_promise import Promise
from ullage.model.event import ObjectKey
from ullage.model.node import Node
from ullage.model.provisioner import Provisioner
from ullage.observe.events import Announcement, EventReason, Subject

_log = structlog.get_logger("draining")


class DrainTeller:
    """The voice of draining. `node_of` finds a node that is there; `pools` are NodeProvisioners by name."""

    def __init__(
        self,
        events: Recorder,
        node_of: Callable[[str], Node | None],
        pools: Callable[[], Mapping[str, Provisioner]],
    ) -> None:
        self._events = events
        self._node_of = node_of
        self._pools = pools
        self._pool_of: dict[str, str] = {}
        self._warned: set[tuple[str, int]] = set()

    def begun(self, promise: Promise) -> None:
        """A node is tainted."""
        self._pool_of[promise.node] = pool_of(self._node_of(promise.node))
        self._tell(_node(promise.node, promise.uid), EventReason.NODE_DRAINING, f"is removed: {promise.action.why}")

    def ended(self, outcome: DrainOutcome) -> None:
        """It is gone, or it stays."""
        name = outcome.action.node
        about, pool = _node(name, outcome.uid), self._pools().get(self._pool_of.pop(name, ""))
        match outcome:
            case NodeGone(left_to_owner=True):
                reason, note = EventReason.NODE_DRAINED, "is empty and cordoned, and left to its owner"
            case NodeGone():
                reason, note = EventReason.NODE_REMOVED, f"removed: {outcome.action.why}"
            case NodeStays(setback=setback, detail=detail):
                reason, note = EventReason.NODE_NOT_REMOVED, f"not removed: {setback.value}: {detail}"
        self._tell(about, reason, note)
        if pool is not None:
            self._tell(_pool(pool), reason, f"{name} {note}", about)

    def asked(self, eviction: Eviction) -> None:
        """A pod went, or did not."""
        about = Subject("Pod", eviction.pod, eviction.uid)
        node = Subject("Node", ObjectKey("", eviction.node))
        if eviction.result is EvictionResult.EVICTED:
            self._tell(about, EventReason.POD_EVICTED, f"evicted: node {eviction.node} is removed", node)
        else:
            note = f"not evicted from node {eviction.node}: {eviction.result.value}: {eviction.detail}"
            self._tell(about, EventReason.POD_NOT_EVICTED, note.removesuffix(": "), node)

    def read(self, provisioner: Provisioner) -> None:
        """A NodeProvisioner uses names that will not be understood for ever: said once for each generation."""
        seen = (provisioner.uid, provisioner.generation)
        if not provisioner.consolidation.deprecated or seen in self._warned:
            return
        self._warned.add(seen)
        for field in provisioner.consolidation.deprecated:
            note = f"{field} is deprecated: say spec.consolidation.maxScaleDownParallelism"
            _log.warning("a deprecated field", provisioner=provisioner.name, field=field)
            self._tell(_pool(provisioner), EventReason.DEPRECATED_FIELD, note)

    def _tell(self, about: Subject, reason: EventReason, note: str, related: Subject | None = None) -> None:
        self._events.tell(Announcement(about, reason, note, related))


def _node(name: str, uid: str) -> Subject:
    return Subject("Node", ObjectKey("", name), uid)


def _pool(provisioner: Provisioner) -> Subject:
    return Subject("NodeProvisioner", ObjectKey("", provisioner.name), provisioner.uid, "gpu.scheduling/v1")
