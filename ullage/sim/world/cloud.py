"""Cloud of a simulated world: its instances become Nodes, and their GPUs appear a little later.

Parameters of a NodeProvisioner set `bootSeconds`, `gpuSeconds` and `capacity`. One cloud stands for every provider.
"""

import asyncio
from collections.abc import Iterator, Mapping

from ullage.clock import Clock
from ullage.cloud.api import CloudProvider, CreateRequest
from ullage.cloud.simulated import CloudBehaviour, SimulatedCloud
from ullage.errors import AlreadyExists, NotFound
from ullage.kube.client.resources import NODES
from ullage.model.device import Inventory
from ullage.model.instance import Instance
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.units import Instant
from ullage.sim.world.admin_client import AdminClient
from ullage.sim.world.agents import AgentFleet
from ullage.sim.world.nodes import node_manifest, node_room
from ullage.sim.world.spec import CloudSpec, FleetNode


class NodeJoiner:
    """Creates Nodes for instances that have booted."""

    def __init__(self, hand: AdminClient, agents: AgentFleet, gpu_seconds: float) -> None:
        self._hand = hand
        self._agents = agents
        self._gpu_seconds = gpu_seconds

    def join(self, node: FleetNode) -> None:
        """Create a node complete with its GPUs."""
        pool = {PROVISIONER_LABEL: node.pool} if node.pool else {}
        self._hand.create(node_manifest(node.name, node.template, {**node.labels, **pool}, zone=node.zone))
        self._install(node)

    async def booted(self, instance: Instance, request: CreateRequest) -> None:
        """Create the Node of a booted instance, and show its GPUs once their driver is up."""
        wait = float(request.pool.parameters.get("gpuSeconds", self._gpu_seconds))
        node = FleetNode(name=instance.id, template=request.template, labels=request.labels, zone=request.zone)
        manifest = node_manifest(node.name, node.template, node.labels, zone=node.zone, gpus_shown=wait <= 0)
        try:
            self._hand.create(manifest)
        except AlreadyExists:
            return
        if wait <= 0:
            self._install(node)
        else:
            asyncio.get_running_loop().call_later(wait, self._show_gpus, node)

    def _show_gpus(self, node: FleetNode) -> None:
        room = node_room(node.template)
        try:
            self._hand.merge(NODES, node.name, {"status": {"allocatable": room, "capacity": room}}, part="status")
        except NotFound:
            return  # deleted meanwhile
        self._install(node)

    def _install(self, node: FleetNode) -> None:
        gpus = node.template.gpus
        if gpus.count:
            inventory = Inventory(
                node=node.name, reported_at=Instant(0.0), devices=gpus.devices(node.name), kind=gpus.kind
            )
            self._agents.install(inventory)


def make_cloud(spec: CloudSpec, clock: Clock, joining: NodeJoiner) -> SimulatedCloud:
    behaviour = CloudBehaviour(latency=spec.latency, boot=spec.boot_seconds, list_lag=spec.list_lag, quota=spec.quota)
    return SimulatedCloud(clock, behaviour, on_boot=joining.booted)


class EveryProvider(Mapping[str, CloudProvider]):
    """Maps every provider name to this cloud."""

    def __init__(self, cloud: SimulatedCloud) -> None:
        self._cloud = cloud

    def __getitem__(self, name: str) -> CloudProvider:
        return self._cloud

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter((self._cloud.name,))

    def __len__(self) -> int:
        return 1
