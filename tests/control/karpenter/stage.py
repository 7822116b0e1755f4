"""A cluster whose nodes are Karpenter's, in virtual time: its scheduler and ours, the controller, agents, kubelets."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from tests.control.provisioning.stage import CountingCloud
from tests.control.scheduling.stage import LATENCY, LEASE_NAMESPACE, NS, an_api
from ullage.clock import Clock
from ullage.cloud.api import CloudProvider
from ullage.config.karpenter import KarpenterSettings
from ullage.config.settings import Settings
from ullage.control.karpenter.wiring import KarpenterController
from ullage.control.provisioning.wiring import ControllerEnvironment, ProvisioningController
from ullage.control.scheduling.wiring import Scheduler
from ullage.errors import ApiError, NotFound
from ullage.kube.client.api import DELETE_NOW, KubeApi, MergePatch
from ullage.kube.client.resources import CRDS, EVENTS, GPU_CLAIMS, NAMESPACES, NODE_CLAIMS, NODE_POOLS, NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.catalog import POD_GROUP
from ullage.kube.crds.install import install
from ullage.kube.objects.pod import KubePod
from ullage.kube.read.karpenter import read_handover_node, read_smart_pod
from ullage.model.device import GpuNodeKind, Inventory
from ullage.model.karpenter import HandoverNode, NodePoolMapping, SmartPod
from ullage.model.provisioner import GpuTemplate
from ullage.model.resources import GPU
from ullage.model.units import Bytes, Instant
from ullage.observe.karpenter_metrics import KarpenterMetrics
from ullage.sim.agents.fleet import SimulatedAgents
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import NetworkConditions
from ullage.sim.controllers.wiring import ControllerManager, ControllerManagerSettings, start_actors
from ullage.sim.karpenter.definitions import karpenter_definitions
from ullage.sim.karpenter.karpenter import SimulatedKarpenter
from ullage.sim.karpenter.kube_scheduler import SimulatedKubeScheduler
from ullage.sim.karpenter.solver import InstanceType
from ullage.sim.karpenter.timings import KarpenterTimings
from ullage.sim.kubelet.timings import DurationRange, KubeletTimings
from ullage.sim.process import ProcessRun, SimulatedProcess
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_namespace
from ullage.testing.karpenter_cluster import (
    G1,
    G8,
    GIB,
    H100,
    RIVALS,
    claim_pod_manifest,
    rival_manifest,
)
from ullage.testing.karpenter_cluster import SMART_NAMESPACE as SMART


def a_node_pool(name: str = "gpu-h100", *, protected: bool = True, **spec: Any) -> dict[str, Any]:
    startup = [{"key": "gpu.scheduling/handover", "value": "unclaimed", "effect": "NoSchedule"}] if protected else []
    return {
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": {"tensor-fusion.ai/managed": "true"}},
                "spec": {
                    "requirements": [{"key": "gpu.scheduling/request", "operator": "Exists"}],
                    "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
                    "startupTaints": startup,
                },
            },
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
        }
        | spec,
    }


@dataclass
class Stage:
    """Everything at work."""

    api: KubeApi
    server: SimulatedApiServer
    clock: Clock
    controller: SimulatedProcess
    karpenter: "KarpenterProcess"
    began: float
    network: NetworkConditions
    """Network between the controller and the API server."""
    registry: CollectorRegistry
    """Metrics of the controller. They live through its crashes, as Prometheus' own counters do."""
    agents: SimulatedAgents
    scheduler: SimulatedProcess
    cloud: CountingCloud
    """Cloud of the NodeProvisioners, if a story makes any."""
    controllers: ControllerManager
    """Kubelets, and kube-controller-manager, which can be stopped."""
    claims_made: set[str] = field(default_factory=set)
    reported_gpus: int | None = None
    """GPUs that agents of new nodes report; None is all, 0 means that they stay silent."""

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.clock.now() - self.began

    async def claim_pod(self, name: str, count: int = 1, *, counted: bool = False, **claim: Any) -> None:
        """A pod of our scheduler with a claim."""
        wanted, body = claim_pod_manifest(name, count, counted=counted, **claim)
        await self.api.create(GPU_CLAIMS, wanted, NS)
        await self.api.create(PODS, body, NS)

    async def rival(self) -> None:
        await self.api.create(PODS, rival_manifest(), NS)

    async def pod(self, name: str) -> KubePod:
        return await self.api.get(PODS, name, NS)

    async def node_of(self, name: str) -> str:
        try:
            return (await self.pod(name)).spec.node_name
        except NotFound:
            return ""

    async def smart_pods(self) -> list[SmartPod]:
        return [read_smart_pod(one) for one in (await self.api.list(PODS, SMART)).items]

    async def nodes(self) -> dict[str, HandoverNode]:
        return {one.metadata.name: read_handover_node(one) for one in (await self.api.list(NODES)).items}

    async def told(self, name: str) -> dict[str, str]:
        events = (await self.api.list(EVENTS, NS)).items
        return {one["reason"]: one["note"] for one in events if one["regarding"]["name"] == name}

    async def until(self, holds: Callable[[], Awaitable[Any]], seconds: float = 300.0, every: float = 0.1) -> float:
        ends = self.now + seconds
        while not await holds():
            state = [(one.key.name, one.state, one.node) for one in await self.smart_pods()]
            assert self.now < ends, f"not within {seconds:g} s: {state}, {await self.nodes()}"
            await asyncio.sleep(every)
        return self.now

    async def bound(self, *names: str, seconds: float = 300.0) -> float:
        """Until all of them have a node."""

        async def all_bound() -> bool:
            return all([await self.node_of(name) for name in names])

        return await self.until(all_bound, seconds)

    async def settled(self) -> None:
        """Until no smart pod is left and every node is open."""

        async def open_and_clean() -> bool:
            return not await self.smart_pods() and all(one.closed_for is None for one in (await self.nodes()).values())

        await self.until(open_and_clean, 120.0)

    async def leave(self, name: str) -> None:
        await self.api.delete(PODS, name, NS, how=DELETE_NOW)


def settings(**more: Any) -> KarpenterSettings:
    mapping = NodePoolMapping(name="h100", node_pool="gpu-h100", gpu_model=H100, gpu_memory=Bytes(80 * GIB))
    said: dict[str, Any] = {"enabled": True, "node_pools": {"h100": mapping}, "priority_class": ""}
    return KarpenterSettings(**(said | more))


Died = Callable[[], None]


def a_controller(
    server: SimulatedApiServer,
    chosen: KarpenterSettings,
    seed: int,
    network: NetworkConditions,
    metrics: KarpenterMetrics,
    cloud: CloudProvider,
) -> SimulatedProcess:
    async def program(life: ProcessRun) -> None:
        rng = random.Random(seed)
        api = RestApi(life.transport, rng=rng)
        while True:
            try:
                host = ControllerEnvironment(instance="controller", providers={"kwok": cloud})
                provisioning = ProvisioningController(api, Settings(), life.clock, seed=rng.getrandbits(32), host=host)
                KarpenterController(
                    provisioning,
                    chosen,
                    schedulers=("gpu-scheduler",),
                    lease_namespace=LEASE_NAMESPACE,
                    seed=rng.getrandbits(32),
                    metrics=metrics,
                )
                await provisioning.run()
            except ApiError:
                await asyncio.sleep(1.0)

    return SimulatedProcess(
        "controller", lambda: InMemoryTransport(server, user="controller", network=network), program
    )


def a_scheduler(server: SimulatedApiServer, seed: int) -> SimulatedProcess:
    chosen = Settings(karpenter=KarpenterSettings(enabled=True))

    async def program(life: ProcessRun) -> None:
        api = RestApi(life.transport, rng=random.Random(seed))
        await Scheduler(api, chosen, life.clock, instance="scheduler", seed=seed).run()

    network = NetworkConditions(seed=seed + 5, latency=LATENCY)
    return SimulatedProcess("scheduler", lambda: InMemoryTransport(server, user="scheduler", network=network), program)


class KarpenterProcess:
    """Karpenter as a process that can be killed, or stopped for a while."""

    def __init__(
        self,
        server: SimulatedApiServer,
        types: Sequence[InstanceType],
        timings: KarpenterTimings,
        seed: int,
        on_node: Callable[[str, InstanceType], None],
    ) -> None:
        self.types = list(types)
        """Instance types of its cloud. A story may change them."""
        self._timings = timings
        self._seeds = iter(range(seed, 1_000_000, 1000))  # names of NodeClaims are random: no run repeats another's
        self._on_node = on_node
        self.process = SimulatedProcess("karpenter", lambda: InMemoryTransport(server, user="karpenter"), self._run)

    async def _run(self, life: ProcessRun) -> None:
        seed = next(self._seeds)
        api = RestApi(life.transport, rng=random.Random(seed + 4))
        one = SimulatedKarpenter(api, life.clock, self.types, timings=self._timings, seed=seed, on_node=self._on_node)
        self.types = one.types
        await one.run()


@asynccontextmanager
async def staged(
    seed: int,
    types: Sequence[InstanceType],
    pools: Sequence[dict[str, Any]],
    chosen: KarpenterSettings,
    *,
    gpu_kind: GpuNodeKind,
    served: bool,
    timings: KarpenterTimings,
) -> AsyncIterator[Stage]:
    clock = loop_clock()
    server = SimulatedApiServer(clock, seed=seed)
    api = an_api(server, seed)
    await install(api)
    await install(api, (POD_GROUP,))
    for name in (LEASE_NAMESPACE, SMART):
        await api.create(NAMESPACES, a_namespace(name))
    if served:
        await install_karpenter(api, pools)
    agents = SimulatedAgents(an_api(server, seed + 3), clock)
    labelling: list[asyncio.Future[Any]] = []

    def arrived(node: str, kind: InstanceType) -> None:
        count = kind.resources[GPU] // 1000 if stage.reported_gpus is None else stage.reported_gpus
        gpus = GpuTemplate(model=H100, count=count, memory=Bytes(80 * GIB))
        inventory = Inventory(node=node, reported_at=Instant(0.0), devices=gpus.devices(node), kind=gpu_kind)
        loop, apart = asyncio.get_running_loop(), Context()  # agents live on when Karpenter's process dies
        if count:
            loop.call_later(1.5, agents.install, inventory, context=apart)
        welcome = MergePatch({"metadata": {"labels": {RIVALS: "welcome"}}})
        labelling.append(loop.create_task(api.patch(NODES, node, welcome), context=apart))

    karpenter = KarpenterProcess(server, types, timings, seed, arrived)
    kube_scheduler = SimulatedKubeScheduler(an_api(server, seed + 6), clock, seed=seed)
    played = ControllerManagerSettings(
        behaviour=KubeletTimings(seed=seed, stop=DurationRange(0.1, 1.0)), custom=(GPU_CLAIMS,), seed=seed
    )
    network, registry = NetworkConditions(seed=seed, latency=LATENCY), CollectorRegistry()
    cloud = CountingCloud(an_api(server, seed + 7), clock)
    controller = a_controller(server, chosen, seed, network, KarpenterMetrics(registry), cloud)
    scheduler = a_scheduler(server, seed)
    async with start_actors(an_api(server, seed + 1), clock, played) as actors:
        stage = Stage(
            api, server, clock, controller, karpenter, clock.now(), network, registry, agents, scheduler, cloud, actors
        )
        beside = [asyncio.ensure_future(one.run()) for one in (agents, kube_scheduler)]
        beside.append(asyncio.ensure_future(_count_claims(stage)))
        processes = (karpenter.process, controller, scheduler)
        for process in processes:
            process.start()
        try:
            yield stage
        finally:
            for process in processes:
                process.crash()
            for one in beside:
                one.cancel()
            ended = await asyncio.gather(*beside, return_exceptions=True)
    assert not [one for one in ended if isinstance(one, Exception)], ended


async def install_karpenter(api: KubeApi, pools: Sequence[dict[str, Any]]) -> None:
    for definition in karpenter_definitions():
        await api.create(CRDS, definition)
    for pool in pools:
        await api.create(NODE_POOLS, pool)


async def _count_claims(stage: Stage) -> None:
    while True:
        with suppress(NotFound):
            stage.claims_made |= {one.metadata.name for one in (await stage.api.list(NODE_CLAIMS)).items}
        await asyncio.sleep(0.2)


def play(
    story: Callable[[Stage], Awaitable[None]],
    *,
    seed: int = 1,
    types: Sequence[InstanceType] = (G1, G8),
    pools: Sequence[dict[str, Any]] | None = None,
    chosen: KarpenterSettings | None = None,
    gpu_kind: GpuNodeKind = GpuNodeKind.LEASED,
    served: bool = True,
    timings: KarpenterTimings = KarpenterTimings(),  # noqa: B008 - frozen
) -> None:
    """Tell a story."""

    async def live() -> None:
        given = (a_node_pool(),) if pools is None else pools
        set_up = staged(seed, types, given, chosen or settings(), gpu_kind=gpu_kind, served=served, timings=timings)
        async with set_up as stage:
            await story(stage)

    run_virtual(live())
