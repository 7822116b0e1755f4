"""Against a real Karpenter with its kwok provider: claims get the nodes bought for them, and nobody else does."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.control.karpenter.stage import G1, G8, GIB, H100, RIVALS, SMART, claim_pod_manifest, rival_manifest
from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from ullage.clock import WallClock
from ullage.decide.karpenter.retry import read_failure
from ullage.errors import AlreadyExists, ApiError, NotFound
from ullage.kube.auth.connect import find_access, open_api
from ullage.kube.client.api import DELETE_NOW, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import GPU_CLAIMS, NAMESPACES, NODE_CLAIMS, NODE_POOLS, NODES, PODS, PRIORITY_CLASSES
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.crds.install import install
from ullage.kube.read import read_pod
from ullage.kube.read.karpenter import read_handover_node, read_smart_pod
from ullage.kube.write.smart_pod import written_amount
from ullage.model.device import Inventory
from ullage.model.karpenter_failure import FailureReason, RecordedFailure
from ullage.model.provisioner import GpuTemplate
from ullage.model.resources import GPU
from ullage.sim.agents.fleet import SimulatedAgents
from ullage.testing.builders import a_namespace
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import prepare
from ullage.testing.controlplane.versions import GoProgram

pytestmark = [pytest.mark.real, pytest.mark.timeout(280)]

DEPLOY = Path(__file__).parents[3] / "deploy" / "karpenter"
NODE_CLASSES = Resource[JsonObject]("karpenter.kwok.sh", "v1alpha1", "kwoknodeclasses", "KWOKNodeClass", False, dict)
SETTINGS = {
    "karpenter": {
        "enabled": True,
        "nodePools": {"h100": {"nodePool": "gpu-h100", "gpuModel": H100, "gpuMemory": "80Gi", "gpusPerNode": 8}},
    }
}
NS = "default"


def _types() -> list[JsonObject]:
    found = []
    for one in (G1, G8):
        where = [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]},
        ]
        found.append(
            {
                "name": one.name,
                "offerings": [{"Price": one.price, "Available": True, "Requirements": where}],
                "architecture": "amd64",
                "operatingSystems": ["linux"],
                "resources": {name: written_amount(amount) for name, amount in one.resources.items()},
            }
        )
    return found


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    types = tmp_path_factory.mktemp("karpenter") / "types.json"
    types.write_text(json.dumps(_types()))
    spec = ControlPlaneSpec(
        components=(GoProgram.CONTROLLER_MANAGER, GoProgram.SCHEDULER, GoProgram.KWOK, GoProgram.KARPENTER),
        extra_flags={GoProgram.KARPENTER: [f"--instance-types-file-path={types}"]},
    )
    with prepare(spec) as started:
        yield started


@dataclass
class Cluster:
    """A real cluster whose nodes Karpenter makes."""

    api: KubeApi
    agents: SimulatedAgents
    claims_made: set[str] = field(default_factory=set)
    spoken_for: set[str] = field(default_factory=set)

    async def claim_pod(self, name: str, count: int = 1, **claim: Any) -> None:
        wanted, body = claim_pod_manifest(name, count, **claim)
        await self.api.create(GPU_CLAIMS, wanted, NS)
        await self.api.create(PODS, body, NS)

    async def node_of(self, name: str) -> str:
        return (await self.api.get(PODS, name, NS)).spec.node_name

    async def smart_pods(self) -> list[str]:
        return [read_smart_pod(one).state for one in (await self.api.list(PODS, SMART)).items]

    async def until(self, holds: Callable[[], Awaitable[Any]], seconds: float = 120.0) -> None:
        ends = asyncio.get_running_loop().time() + seconds
        while not await holds():
            assert asyncio.get_running_loop().time() < ends, f"not within {seconds:g} s: {await self.smart_pods()}"
            await asyncio.sleep(0.1)

    async def bound(self, *names: str) -> None:
        async def all_bound() -> bool:
            return all([await self.node_of(name) for name in names])

        await self.until(all_bound)

    async def settled(self) -> None:
        async def open_and_clean() -> bool:
            nodes = [read_handover_node(one) for one in (await self.api.list(NODES)).items]
            return not await self.smart_pods() and all(one.closed_for is None for one in nodes)

        await self.until(open_and_clean, 60.0)

    async def failure(self, name: str) -> RecordedFailure:
        async def said() -> bool:
            return bool(read_pod(await self.api.get(PODS, name, NS)).capacity_failure)

        await self.until(said)
        found = read_failure(read_pod(await self.api.get(PODS, name, NS)).capacity_failure)
        assert found is not None
        return found

    async def watch_nodes(self) -> None:
        """An agent for every node that comes, and the label rivals select."""
        while True:
            with suppress(ApiError):
                self.claims_made |= {one.metadata.name for one in (await self.api.list(NODE_CLAIMS)).items}
                for node in (await self.api.list(NODES)).items:
                    await self._arrived(node.metadata.name, node.status.allocatable.get(GPU, ""))
            await asyncio.sleep(0.1)

    async def _arrived(self, name: str, gpus: str) -> None:
        if name in self.spoken_for or not gpus.isdecimal():
            return
        self.spoken_for.add(name)
        await self.api.patch(NODES, name, MergePatch({"metadata": {"labels": {RIVALS: "welcome"}}}))
        devices = GpuTemplate(model=H100, count=int(gpus), memory=80 * GIB).devices(name)
        self.agents.install(Inventory(node=name, reported_at=0.0, devices=devices))


@pytest.fixture
async def cluster(plane: ControlPlane) -> AsyncIterator[Cluster]:
    api = open_api(find_access(plane.kubeconfig), seed=0)
    try:
        async with _prepared(api) as found:
            yield found
    finally:
        await api.close()


@asynccontextmanager
async def _prepared(api: KubeApi) -> AsyncIterator[Cluster]:
    await install(api, (*OURS, POD_GROUP))
    pool = yaml.safe_load((DEPLOY / "nodepool-kwok.yaml").read_text())
    node_class = {"metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": "2s"}}
    wanted: list[tuple[Resource[Any], JsonObject]] = [
        (NAMESPACES, a_namespace("ullage-system")),
        (PRIORITY_CLASSES, yaml.safe_load((DEPLOY / "priorityclass.yaml").read_text())),
        (NODE_CLASSES, node_class),
        (NODE_POOLS, pool),
    ]
    for resource, body in wanted:
        with suppress(AlreadyExists):
            await api.create(resource, body)
    cluster = Cluster(api, SimulatedAgents(api, WallClock()))
    beside = [asyncio.create_task(cluster.agents.run()), asyncio.create_task(cluster.watch_nodes())]
    try:
        yield cluster
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        await _empty(api)


async def _empty(api: KubeApi) -> None:
    """Pods first, then NodePools: Karpenter takes its nodes away with them."""
    for pod in (await api.list(PODS)).items:
        with suppress(NotFound):
            await api.delete(PODS, pod.metadata.name, pod.metadata.namespace, how=DELETE_NOW)
    for claim in (await api.list(GPU_CLAIMS)).items:
        name, namespace = claim.metadata.name, claim.metadata.namespace
        with suppress(NotFound):  # who takes finalizers off is gone by now
            await api.delete(GPU_CLAIMS, name, namespace)
            await api.patch(GPU_CLAIMS, name, MergePatch({"metadata": {"finalizers": None}}), namespace)
    with suppress(NotFound):
        await api.delete(NODE_POOLS, "gpu-h100")
    for _ in range(450):
        left = [len((await api.list(kind)).items) for kind in (NODE_CLAIMS, NODES, GPU_CLAIMS)]
        if not any(left):
            return
        await asyncio.sleep(0.2)
    raise AssertionError("Karpenter's nodes stay")


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[PoolPrograms]:
    with PoolPrograms(tmp_path) as running:
        yield running


@pytest.fixture
def settings(tmp_path: Path) -> str:
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(SETTINGS))
    return str(path)


SIZES = [pytest.param(3, id="3-claims"), pytest.param(10, id="10-claims", marks=pytest.mark.full)]


@pytest.mark.parametrize("count", SIZES)
async def test_every_claim_gets_its_node_and_a_rival_gets_none(
    cluster: Cluster, plane: ControlPlane, programs: PoolPrograms, settings: str, count: int
) -> None:
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    await cluster.api.create(PODS, rival_manifest(), NS)
    names = [f"p{n}" for n in range(count)]
    for name in names:
        await cluster.claim_pod(name)
    await cluster.bound(*names)
    assert not await cluster.node_of("rival"), "it waited throughout, and tolerates the GPU taint"
    await cluster.settled()
    assert not await cluster.node_of("rival")
    programs.check_running()
    assert len(cluster.claims_made) == count, "exactly the nodes that were needed"
    assert len({await cluster.node_of(name) for name in names}) == count
    assert len((await cluster.api.list(NODE_CLAIMS)).items) == count, "NodeClaims stay"


async def test_a_controller_that_is_killed_on_the_way_goes_on_where_it_was(
    cluster: Cluster, plane: ControlPlane, programs: PoolPrograms, settings: str
) -> None:
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    controller = programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    await cluster.claim_pod("a")

    async def claimed() -> bool:
        return bool(cluster.claims_made)

    await cluster.until(claimed)
    programs.kill(controller)
    await asyncio.sleep(3.0)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    await cluster.bound("a")
    await cluster.settled()
    assert len(cluster.claims_made) == 1


async def test_what_cannot_be_bought_fails_fast_with_the_reason(
    cluster: Cluster, plane: ControlPlane, programs: PoolPrograms, settings: str
) -> None:
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    await cluster.claim_pod("large", 9)
    assert (await cluster.failure("large")).reason is FailureReason.LARGER_THAN_ANY_NODE
    await cluster.claim_pod("hungry", cpu="5000")
    assert (await cluster.failure("hungry")).reason is FailureReason.NO_INSTANCE_TYPE, "in Karpenter's own words"
    assert not cluster.claims_made


@pytest.mark.full
async def test_a_gang_gets_all_its_nodes(
    cluster: Cluster, plane: ControlPlane, programs: PoolPrograms, settings: str
) -> None:
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    members = [f"g{n}" for n in range(4)]
    for name in members:
        await cluster.claim_pod(name, 8, gangRef="g", gangMinMember=4)
    await cluster.bound(*members)
    await cluster.settled()
    assert len(cluster.claims_made) == 4
    assert len({await cluster.node_of(name) for name in members}) == 4


@pytest.mark.full
async def test_limits_are_told_and_a_pod_that_is_deleted_takes_its_smart_pod_along(
    cluster: Cluster, plane: ControlPlane, programs: PoolPrograms, settings: str
) -> None:
    limits = MergePatch({"spec": {"limits": {"nvidia.com/gpu": 1}}})
    await cluster.api.patch(NODE_POOLS, "gpu-h100", limits)
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    for name in ("a", "b"):
        await cluster.claim_pod(name)
    assert (await cluster.failure("b")).reason is FailureReason.NODE_POOL_LIMIT

    async def claimed() -> bool:
        return bool(cluster.claims_made)

    await cluster.until(claimed)
    await cluster.api.delete(PODS, "a", NS, how=DELETE_NOW)

    async def clean() -> bool:
        return not await cluster.smart_pods()

    await cluster.until(clean, 20.0)
    await cluster.bound("b")  # the node that came for a is open
    assert len(cluster.claims_made) == 1


@pytest.mark.full
async def test_a_cloud_without_capacity_is_told(
    cluster: Cluster, plane: ControlPlane, programs: PoolPrograms, settings: str
) -> None:
    """A node class that is gone reads as no capacity in Karpenter's kwok provider."""
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    await cluster.api.patch(NODE_CLASSES, "default", MergePatch({"metadata": {"finalizers": None}}))
    await cluster.api.delete(NODE_CLASSES, "default")
    await cluster.claim_pod("a")
    kinds = (FailureReason.INSUFFICIENT_CAPACITY, FailureReason.NODE_POOL_NOT_READY)
    assert (await cluster.failure("a")).reason in kinds
    assert not await cluster.node_of("a")
