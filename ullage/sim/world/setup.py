"""What is there when a world begins: kinds, namespaces, nodes, objects; and what has to be with them to make sense.

Objects may come from a live cluster. Then nodes of pools are machines of the cloud, GPU reports are agents' first
words, and GPUs that bound pods were given are leased to them.
"""

from collections.abc import Mapping

import msgspec

from ullage.act.leases import Holder, LeaseBook, Want
from ullage.clock import Clock
from ullage.cloud.api import CreateRequest, PoolRef
from ullage.cloud.simulated import SimulatedCloud
from ullage.decide.seat.freshness import STALE_AFTER
from ullage.kube.api import KubeApi
from ullage.kube.gpu_read import read_inventory
from ullage.kube.objects.gpu import GpuNodeStatus
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.kube.provisioner_read import read_provisioner
from ullage.kube.resource import JsonObject
from ullage.kube.resources import GPU_NODE_STATUSES, NODE_PROVISIONERS, NODES
from ullage.model.provisioner import PROVISIONER_LABEL, ZONE_LABEL, NodeTemplate, Provisioner
from ullage.sim.world.agents import AgentFleet
from ullage.sim.world.books import Books
from ullage.sim.world.hand import resource_of
from ullage.sim.world.spec import WorldSpec


def adopt_machines(cloud: SimulatedCloud, spec: WorldSpec) -> None:
    """Nodes of pools are machines of the cloud."""
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
    """NodeProvisioners among the objects, as they will be read once the server has filled in what they leave out."""
    found = [one for one in (*spec.objects, *spec.restored) if resource_of(one) is NODE_PROVISIONERS]
    read = [read_provisioner(msgspec.convert(_with_uid(one), NodeProvisioner)) for one in found]
    return {one.name: one for one in read}


def _with_uid(manifest: JsonObject) -> JsonObject:
    return {**manifest, "metadata": {"uid": "unborn", **manifest["metadata"]}}


def _adopt(cloud: SimulatedCloud, node: str, pool: str, template: NodeTemplate, zone: str) -> None:
    request = CreateRequest(pool=PoolRef(name=pool), count=1, token=f"there-{node}"[:64], template=template, zone=zone)
    cloud.adopt(node, request)


def split_reports(objects: tuple[JsonObject, ...]) -> tuple[list[JsonObject], list[JsonObject]]:
    """Reports of agents, and everything else, each in its order."""
    reports = [one for one in objects if resource_of(one) is GPU_NODE_STATUSES]
    return reports, [one for one in objects if resource_of(one) is not GPU_NODE_STATUSES]


def split_restored(spec: WorldSpec) -> tuple[list[JsonObject], list[JsonObject]]:
    """The same of a cluster that was. Agents that had fallen silent stay so: their last words are mere objects."""
    reports, others = split_reports(spec.restored)
    speaking = [one for one in reports if _reported_at(one) >= spec.epoch - STALE_AFTER]
    return speaking, [*others, *(one for one in reports if one not in speaking)]


def _reported_at(report: JsonObject) -> float:
    return read_inventory(msgspec.convert(report, GpuNodeStatus)).reported_at


def install_agents(agents: AgentFleet, reports: list[JsonObject]) -> None:
    """Agents go on from what was last said for them."""
    for report in reports:
        agents.install(read_inventory(msgspec.convert(report, GpuNodeStatus)))


async def lease_what_is_given(api: KubeApi, books: Books, namespace: str, clock: Clock) -> None:
    """GPUs of pods that were bound before the world began."""
    book = LeaseBook(api, namespace, clock)
    for pod in [one for one in books.pods.values() if one.holds and one.devices]:
        await book.reserve(Holder(pod.key, pod.uid), Want(pod.node, pod.devices, pod.milli))
