"""Mirror of a world's objects for observers, without delay: changed by the store itself, in the store's order.

Keeps the present state and passes on both sides of every change. Checks and counts nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ullage.clock import Clock
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS, LEASES, NODES, PODS
from ullage.model.fact_event import ObjectKey
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.world.stored_objects import (
    StoredLease,
    StoredNode,
    StoredPod,
    claim_count,
    read_lease,
    read_node,
    read_pod,
)

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class ObjectChange(Generic[F]):
    """One change of one object."""

    at: float
    by: str
    """User that made the request."""
    before: F | None
    after: F | None
    stored: bytes = b""
    """Object as JSON: its present or last state."""

    @property
    def fact(self) -> F:
        """Object after the change, or before it if it was deleted."""
        found = self.after if self.after is not None else self.before
        if found is None:
            raise ValueError("a change of nothing")
        return found


class ObjectMirror:
    """Present pods, nodes, Leases and claims. Listeners are called after the mirror is up to date."""

    def __init__(self, server: SimulatedApiServer, clock: Clock) -> None:
        self.pods: dict[ObjectKey, StoredPod] = {}
        self.on_node: dict[str, dict[ObjectKey, StoredPod]] = {}
        """Pods that occupy a node, by node."""
        self.by_uid: dict[str, StoredPod] = {}
        self.nodes: dict[str, StoredNode] = {}
        self.leases: dict[str, StoredLease] = {}
        self.claims: dict[ObjectKey, JsonObject] = {}
        """Specs of GpuClaims."""
        self.pod_listeners: list[Callable[[ObjectChange[StoredPod]], None]] = []
        self.node_listeners: list[Callable[[ObjectChange[StoredNode]], None]] = []
        self.lease_listeners: list[Callable[[ObjectChange[StoredLease]], None]] = []
        self._server = server
        self.clock = clock
        server.listen(PODS.id, self._pod_changed)
        server.listen(NODES.id, self._node_changed)
        server.listen(LEASES.id, self._lease_changed)
        server.listen(GPU_CLAIMS.id, self._claim_changed)

    def asked_gpus(self, pod: StoredPod) -> tuple[int, bool]:
        """Number of GPUs a pod requests, and whether only a part of each."""
        named = pod.claim or pod.template
        spec = self.claims.get(ObjectKey(pod.key.namespace, named)) if named else None
        if spec is None:
            return pod.gpus, False
        count, part = claim_count(spec)
        return max(count, pod.gpus), part

    def _pod_changed(self, change: StoredChange) -> None:
        after = None if change.deleted else read_pod(change.after.obj)
        key = _key(change)
        before = self.pods.pop(key, None)
        if before is not None:
            self.by_uid.pop(before.uid, None)
            if before.holds:
                self.on_node[before.node].pop(key, None)
        if after is not None:
            self.pods[key] = self.by_uid[after.uid] = after
            if after.holds:
                self.on_node.setdefault(after.node, {})[key] = after
        step = ObjectChange(self.clock.now(), self._server.caller, before, after, change.after.body)
        for listener in self.pod_listeners:
            listener(step)

    def _node_changed(self, change: StoredChange) -> None:
        after = None if change.deleted else read_node(change.after.obj)
        name = change.after.obj["metadata"]["name"]
        before = self.nodes.pop(name, None)
        if after is not None:
            self.nodes[name] = after
        step = ObjectChange(self.clock.now(), self._server.caller, before, after, change.after.body)
        for listener in self.node_listeners:
            listener(step)
        if after is None and not self.on_node.get(name):
            self.on_node.pop(name, None)

    def _lease_changed(self, change: StoredChange) -> None:
        found = read_lease(change.after.obj)
        if found is None:
            return
        before = self.leases.pop(found.name, None)
        if not change.deleted:
            self.leases[found.name] = found
        step = ObjectChange(self.clock.now(), self._server.caller, before, None if change.deleted else found)
        for listener in self.lease_listeners:
            listener(step)

    def _claim_changed(self, change: StoredChange) -> None:
        key = _key(change)
        if change.deleted:
            self.claims.pop(key, None)
        else:
            self.claims[key] = change.after.obj.get("spec") or {}


def _key(change: StoredChange) -> ObjectKey:
    meta = change.after.obj["metadata"]
    return ObjectKey(meta["namespace"], meta["name"])
