"""The objects of a world as observers know them, one step behind nobody: told by the store itself, in its own order.

Keeps the present and tells both sides of every change. Judges and counts nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ullage.clock import Clock
from ullage.kube.resource import JsonObject
from ullage.kube.resources import GPU_CLAIMS, LEASES, NODES, PODS
from ullage.model.event import ObjectKey
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.store import Change
from ullage.sim.world.facts import LeaseNow, NodeNow, PodNow, claim_count, read_lease, read_node, read_pod

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Step(Generic[F]):
    """One change of one object."""

    at: float
    by: str
    """Who asked for it."""
    before: F | None
    after: F | None
    stored: bytes = b""
    """The object as JSON, as it is or as it was last."""

    @property
    def fact(self) -> F:
        """The object, as it is or as it was last."""
        found = self.after if self.after is not None else self.before
        if found is None:
            raise ValueError("a change of nothing")
        return found


class Books:
    """What there is. Whoever listens is told after the books are up to date."""

    def __init__(self, server: SimulatedApiServer, clock: Clock) -> None:
        self.pods: dict[ObjectKey, PodNow] = {}
        self.on_node: dict[str, dict[ObjectKey, PodNow]] = {}
        """Pods that hold room, by node."""
        self.by_uid: dict[str, PodNow] = {}
        self.nodes: dict[str, NodeNow] = {}
        self.leases: dict[str, LeaseNow] = {}
        self.claims: dict[ObjectKey, JsonObject] = {}
        """Their specs."""
        self.pod_listeners: list[Callable[[Step[PodNow]], None]] = []
        self.node_listeners: list[Callable[[Step[NodeNow]], None]] = []
        self.lease_listeners: list[Callable[[Step[LeaseNow]], None]] = []
        self._server = server
        self.clock = clock
        server.listen(PODS.id, self._pod_changed)
        server.listen(NODES.id, self._node_changed)
        server.listen(LEASES.id, self._lease_changed)
        server.listen(GPU_CLAIMS.id, self._claim_changed)

    def asked_gpus(self, pod: PodNow) -> tuple[int, bool]:
        """How many GPUs a pod wants, and whether only a part of each."""
        named = pod.claim or pod.template
        spec = self.claims.get(ObjectKey(pod.key.namespace, named)) if named else None
        if spec is None:
            return pod.gpus, False
        count, part = claim_count(spec)
        return max(count, pod.gpus), part

    def _pod_changed(self, change: Change) -> None:
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
        step = Step(self.clock.now(), self._server.caller, before, after, change.after.body)
        for listener in self.pod_listeners:
            listener(step)

    def _node_changed(self, change: Change) -> None:
        after = None if change.deleted else read_node(change.after.obj)
        name = change.after.obj["metadata"]["name"]
        before = self.nodes.pop(name, None)
        if after is not None:
            self.nodes[name] = after
        step = Step(self.clock.now(), self._server.caller, before, after, change.after.body)
        for listener in self.node_listeners:
            listener(step)
        if after is None and not self.on_node.get(name):
            self.on_node.pop(name, None)

    def _lease_changed(self, change: Change) -> None:
        found = read_lease(change.after.obj)
        if found is None:
            return
        before = self.leases.pop(found.name, None)
        if not change.deleted:
            self.leases[found.name] = found
        step = Step(self.clock.now(), self._server.caller, before, None if change.deleted else found)
        for listener in self.lease_listeners:
            listener(step)

    def _claim_changed(self, change: Change) -> None:
        key = _key(change)
        if change.deleted:
            self.claims.pop(key, None)
        else:
            self.claims[key] = change.after.obj.get("spec") or {}


def _key(change: Change) -> ObjectKey:
    meta = change.after.obj["metadata"]
    return ObjectKey(meta["namespace"], meta["name"])
