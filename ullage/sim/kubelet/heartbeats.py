"""Node leases, renewed by living kubelets. Only run where nodes may fall silent: elsewhere heartbeats are implicit."""

import hashlib

from ullage.clock import Clock, Instant
from ullage.errors import NotFound
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import LEASES
from ullage.kube.timestamps import write_micro_time
from ullage.model.fact_event import ObjectKey
from ullage.sim.controllers.controller_loop import ControllerLoop
from ullage.sim.controllers.node_lifecycle_loop import LEASE_NAMESPACE
from ullage.sim.controllers.object_cache import ObjectCache, key_of
from ullage.sim.controllers.objects import ActorNode
from ullage.sim.kubelet.fleet import KubeletFleet

RENEWAL_SECONDS = 10.0
DURATION_SECONDS = 40


class Heartbeats:
    """One key per node."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        fleet: KubeletFleet,
        nodes: ObjectCache[ActorNode],
        seconds: float = RENEWAL_SECONDS,
    ) -> None:
        """`seconds`: interval of the renewals."""
        self._seconds = seconds
        self._api = api
        self._clock = clock
        self._fleet = fleet
        self._nodes = nodes
        self.actor: ControllerLoop[ObjectKey] = ControllerLoop("heartbeat", self._sync, clock, workers=16)
        nodes.listen(self._node_changed)

    async def _sync(self, key: ObjectKey) -> Instant | None:
        node = self._nodes.get(key)
        if node is None:
            return None
        if self._fleet.is_alive(node):
            await self._renew(node)
        return Instant(self._clock.now() + self._seconds)

    async def _renew(self, node: ActorNode) -> None:
        name = node.metadata.name
        spec: JsonObject = {"renewTime": write_micro_time(self._clock.now())}
        try:
            await self._api.patch(LEASES, name, MergePatch({"spec": spec}), LEASE_NAMESPACE)
        except NotFound:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
            spec |= {"holderIdentity": name, "leaseDurationSeconds": DURATION_SECONDS}
            body = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}
            await self._api.create(LEASES, body, LEASE_NAMESPACE)

    def _node_changed(self, old: ActorNode | None, new: ActorNode | None) -> None:
        if old is None and new is not None:
            # Spread over the interval, so that not all of a fleet beats at one moment.
            share = int.from_bytes(hashlib.sha256(new.metadata.name.encode()).digest()[:4]) / 2**32
            self.actor.queue.add_at(key_of(new), Instant(self._clock.now() + share * self._seconds))
