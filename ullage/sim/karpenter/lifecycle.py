"""Life of one NodeClaim of the simulated Karpenter: launch, registration, initialisation, termination.

Each step is read from the NodeClaim, so that a restarted Karpenter goes on where it was, and a NodeClaim made by hand
is served like any other.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ullage.clock import Clock
from ullage.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import NODE_CLAIMS, NODES
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import DISRUPTED_TAINT, INITIALIZED_LABEL, INSTANCE_TYPE_LABEL
from ullage.model.provisioner import ZONE_LABEL
from ullage.model.resources import GPU
from ullage.sim.karpenter import objects
from ullage.sim.karpenter.cluster_state import KarpenterClusterState, NodeClaimState
from ullage.sim.karpenter.objects import SimulatedEvent
from ullage.sim.karpenter.provisioning import KarpenterEvents
from ullage.sim.karpenter.solver import InstanceType
from ullage.sim.karpenter.timings import KarpenterTimings

STEPS = ("Launched", "Registered", "Initialized", "Ready")


class NodeClaimLifecycle:
    """Serves NodeClaims: one `live` and at most one `terminate` per NodeClaim."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        cluster: KarpenterClusterState,
        events: KarpenterEvents,
        timings: KarpenterTimings,
        on_node: Callable[[str, InstanceType], None],
    ) -> None:
        self._api = api
        self._clock = clock
        self._cluster = cluster
        self._events = events
        self._timings = timings
        self._on_node = on_node

    async def live(self, claim: NodeClaimState) -> None:
        """Launch, register and initialise, each unless the NodeClaim says that it is done."""
        try:
            kind = self._cluster.kind_of(claim)
            if not claim.fact.holds("Launched"):
                if kind is None or not kind.available or not self._cluster.has_class(claim):
                    await self._no_capacity(claim)
                    return
                await self._launch(claim, kind)
            if kind is not None and await self._register(claim, kind):
                await self._initialise(claim)
        except (NotFound, Conflict):
            return  # it was deleted meanwhile

    async def _launch(self, claim: NodeClaimState, kind: InstanceType) -> None:
        await asyncio.sleep(self._timings.launch)
        name = claim.fact.name
        labels = {INSTANCE_TYPE_LABEL: kind.name, ZONE_LABEL: kind.zone}
        meta: JsonObject = {"labels": labels, "finalizers": [objects.FINALIZER]}
        await self._api.patch(NODE_CLAIMS, name, MergePatch({"metadata": meta}))
        await self._say(name, done=1)

    async def _register(self, claim: NodeClaimState, kind: InstanceType) -> bool:
        """Create the Node after the boot time. False if the instance never joins: Karpenter deletes the NodeClaim."""
        name, node = claim.fact.name, f"kwok-{claim.fact.name}"
        if claim.fact.holds("Registered"):
            return True
        launched = claim.fact.condition("Launched").since or self._clock.now()
        await asyncio.sleep(max(0.0, launched + self._timings.registration - self._clock.now()))
        if not kind.joins:
            await self._say(name, done=1, why="NodeNotFound")
            ends = claim.fact.created + self._timings.registration_deadline
            await asyncio.sleep(max(0.0, ends - self._clock.now()))
            await self._api.delete(NODE_CLAIMS, name)
            return False
        if self._is_going(name):
            return False
        with suppress(AlreadyExists):  # created before a restart
            await self._api.create(NODES, objects.node(node, await self._api.get(NODE_CLAIMS.whole(), name), kind))
        self._on_node(node, kind)
        await asyncio.sleep(self._timings.unregistered)
        await self._untaint(node)
        await asyncio.sleep(self._timings.registration_shown)
        await self._say(name, done=2, node=node)
        return True

    async def _untaint(self, node: str) -> None:
        """Take the taint of unregistered nodes away, and leave those alone that others write meanwhile."""
        while True:
            there = await self._api.get(NODES.whole(), node)
            kept = [one for one in there["spec"].get("taints", []) if one["key"] != objects.UNREGISTERED["key"]]
            version = {"resourceVersion": there["metadata"]["resourceVersion"]}
            try:
                await self._api.patch(NODES, node, MergePatch({"metadata": version, "spec": {"taints": kept}}))
            except Conflict:
                continue
            return

    async def _initialise(self, claim: NodeClaimState) -> None:
        """Wait until the node is Ready, has its GPUs and no startup taint; then mark node and NodeClaim initialised."""
        name, node = claim.fact.name, f"kwok-{claim.fact.name}"
        startup = {one["key"] for one in claim.raw["spec"].get("startupTaints") or ()}
        if claim.fact.holds("Initialized"):
            return
        said = ""
        while True:
            await asyncio.sleep(self._timings.initialisation)
            if self._is_going(name):
                return
            why = self._unready(claim, node, startup)
            if not why:
                break
            if why != said:
                said = why
                await self._say(name, done=2, node=node, why=why)
        await self._api.patch(NODES, node, MergePatch({"metadata": {"labels": {INITIALIZED_LABEL: "true"}}}))
        await self._say(name, done=4, node=node)

    def _unready(self, claim: NodeClaimState, node: str, startup: set[str]) -> str:
        """Karpenter's reason why the node is not initialised; empty if it is."""
        there = self._cluster.nodes.get(node)
        if there is None:
            return "NodeNotFound"
        if not there.ready:
            return "NodeNotReady"
        if any(taint.key in startup for taint in there.taints):
            return "StartupTaintsExist"
        if claim.fact.requests.get(GPU, 0) > dict(there.allocatable).get(GPU, 0):
            return "ResourceNotRegistered"
        return ""

    async def _no_capacity(self, claim: NodeClaimState) -> None:
        name = claim.fact.name
        note = f"NodeClaim {name} event: insufficient capacity"
        about = ObjectKey("", name)
        await self._events.write(SimulatedEvent("NodeClaim", about, claim.fact.uid, "InsufficientCapacityError", note))
        await asyncio.sleep(self._timings.no_capacity)
        await self._api.delete(NODE_CLAIMS, name)

    async def terminate(self, claim: NodeClaimState) -> None:
        """Taint and delete the Node of a NodeClaim that is being deleted, and let both go after the drain."""
        if claim.fact.node:
            with suppress(NotFound, Conflict):
                await taint_disrupted(self._api, claim.fact.node)
                await self._api.delete(NODES, claim.fact.node)
            await asyncio.sleep(self._timings.termination)
            await self._release(NODES, claim.fact.node)
        await self._release(NODE_CLAIMS, claim.fact.name)

    async def _release(self, resource: Resource[Any], name: str) -> None:
        with suppress(NotFound, Conflict):
            await self._api.patch(resource, name, MergePatch({"metadata": {"finalizers": None}}))

    async def abandon(self, claim: NodeClaimState) -> None:
        """Delete a NodeClaim whose Node was deleted by somebody else."""
        with suppress(NotFound):
            await self._api.delete(NODE_CLAIMS, claim.fact.name)

    def _is_going(self, name: str) -> bool:
        claim = self._cluster.claims.get(name)
        return claim is None or claim.fact.deleting

    async def _say(self, name: str, *, done: int, node: str = "", why: str = "") -> None:
        """Write the conditions: `done` steps are True."""
        steps = {step: "True" if at < done else "Unknown" for at, step in enumerate(STEPS)}
        before = self._cluster.claims.get(name)
        status = objects.conditions(steps, now=self._clock.now(), node_name=node, why=why)
        for one in status["conditions"]:  # a condition that held already keeps its time
            if before is not None and one["status"] == "True" and before.fact.holds(one["type"]):
                known = before.raw["status"]["conditions"]
                one["lastTransitionTime"] = next(
                    other["lastTransitionTime"] for other in known if other["type"] == one["type"]
                )
        await self._api.patch(NODE_CLAIMS, name, MergePatch({"status": status}), subresource="status")


async def taint_disrupted(api: KubeApi, node: str) -> None:
    """Taint a node as Karpenter does before it removes it; once."""
    there = await api.get(NODES.whole(), node)
    taints = there["spec"].get("taints", [])
    if all(one["key"] != DISRUPTED_TAINT for one in taints):
        taints = [*taints, {"key": DISRUPTED_TAINT, "effect": "NoSchedule"}]
        await api.patch(NODES, node, MergePatch({"spec": {"taints": taints}}))
