"""Initial state of a world: kinds, namespaces, nodes and objects, and what has to go with them.

Objects may come from a live cluster. Then nodes of pools become instances of the cloud, GpuNodeStatus objects become
the agents' first reports, and GPUs allocated to bound pods are leased to them.
"""

from collections.abc import Mapping

import msgspec

from ullage.act.leases import LeaseClient, LeaseHolder, LeaseRequest
from ullage.clock import Clock
from ullage.cloud.api import CreateRequest, PoolRef
from ullage.cloud.simulated import SimulatedCloud
from ullage.decide.placement.devices.freshness import STALE_AFTER
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_NODE_STATUSES, NODE_PROVISIONERS, NODES
from ullage.kube.objects.gpu import GpuNodeStatus
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.kube.read.gpu import read_inventory
from ullage.kube.read.provisioner import read_provisioner
from ullage.model.provisioner import PROVISIONER_LABEL, ZONE_LABEL, NodeTemplate, Provisioner
from ullage.sim.world.admin_client import resource_of
from ullage.sim.world.agents import AgentFleet
from ullage.sim.world.object_mirror import ObjectMirror
from ullage.sim.world.spec import WorldSpec


def adopt_machines(cloud: SimulatedCloud, spec: WorldSpec) -> None:
    """Give the cloud an instance for every node of a pool."""
    for node in spec.nodes:
        if node.pool:
            _adopt(cloud, node.name, node.pool, node.template, node.zone)
    pools = _pools(spec)
    for manifest in (*spec.objects, *spec.restored):
        if resource_of(manifest) is NODES:
            labels: Mapping[str, str] = manifest["metadata"].get("labels") or {}
            pool = pools.get(labels.get(PROVISIONER_LABEL, ""))
            if pool is not None:
                name = manifest["metadata"]["name"]
                _adopt(cloud, name, pool.name, pool.template, labels.get(ZONE_LABEL, ""))


def _pools(spec: WorldSpec) -> dict[str, Provisioner]:
    """NodeProvisioners among the objects, read with the defaults that the server will fill in."""
    found = [one for one in (*spec.objects, *spec.restored) if resource_of(one) is NODE_PROVISIONERS]
    read = [read_provisioner(msgspec.convert(_with_uid(one), NodeProvisioner)) for one in found]
    return {one.name: one for one in read}


def _with_uid(manifest: JsonObject) -> JsonObject:
    return {**manifest, "metadata": {"uid": "unborn", **manifest["metadata"]}}


def _adopt(cloud: SimulatedCloud, node: str, pool: str, template: NodeTemplate, zone: str) -> None:
    request = CreateRequest(pool=PoolRef(name=pool), count=1, token=f"there-{node}"[:64], template=template, zone=zone)
    cloud.adopt(node, request)


def split_reports(objects: tuple[JsonObject, ...]) -> tuple[list[JsonObject], list[JsonObject]]:
    """GpuNodeStatus objects, and all other objects, each in order."""
    reports = [one for one in objects if resource_of(one) is GPU_NODE_STATUSES]
    return reports, [one for one in objects if resource_of(one) is not GPU_NODE_STATUSES]


def split_restored(spec: WorldSpec) -> tuple[list[JsonObject], list[JsonObject]]:
    """Split the restored objects in the same way.

    Stale reports stay plain objects, so that silent agents stay silent.
    """
    reports, others = split_reports(spec.restored)
    speaking = [one for one in reports if _reported_at(one) >= spec.epoch - STALE_AFTER]
    return speaking, [*others, *(one for one in reports if one not in speaking)]


def _reported_at(report: JsonObject) -> float:
    return read_inventory(msgspec.convert(report, GpuNodeStatus)).reported_at


def install_agents(agents: AgentFleet, reports: list[JsonObject]) -> None:
    """Start agents with the inventories last reported for their nodes."""
    for report in reports:
        agents.install(read_inventory(msgspec.convert(report, GpuNodeStatus)))


async def lease_what_is_given(api: KubeApi, mirror: ObjectMirror, namespace: str, clock: Clock) -> None:
    """Create Leases for the GPUs of pods that were bound before the world began."""
    book = LeaseClient(api, namespace, clock)
    for pod in [one for one in mirror.pods.values() if one.holds and one.devices]:
        await book.reserve(
            LeaseHolder(pod.key, pod.uid), LeaseRequest(pod.node, pod.devices, pod.milli, () if pod.milli else pod.sees)
        )
