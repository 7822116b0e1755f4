"""A cluster without nodes, in virtual time: a simulated API server, a scheduler, a provisioner, a cloud of fake nodes.

The cloud is a process of its own and outlives the provisioner. Whatever it made and deleted is counted, and judged.
"""

import asyncio
import random
from collections import ChainMap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from tests.control.scheduling.stage import LATENCY, LEASE_NAMESPACE, NS, a_scheduler, an_api
from tests.kube.crds.bad_provisioners import SOUND, with_fields
from ullage.clock import Clock, Instant
from ullage.cloud.api import CloudProvider, CreateRequest, CreateResult
from ullage.cloud.kwok.provider import KwokProvider
from ullage.config.settings import ProvisioningSettings, Settings
from ullage.control.provisioning.wiring import ControllerEnvironment, ProvisioningController
from ullage.errors import ApiError
from ullage.kube.client.api import DELETE_NOW, KubeApi, MergePatch
from ullage.kube.client.resources import NAMESPACES, NODE_PROVISIONERS, NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.catalog import POD_GROUP
from ullage.kube.crds.install import install
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.model.instance import Instance
from ullage.model.provisioner import DELETION_TAINT, FleetBudget
from ullage.model.units import Steady
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import NetworkConditions
from ullage.sim.controllers.wiring import ControllerManagerSettings, start_actors
from ullage.sim.kubelet.timings import DurationRange, KubeletTimings
from ullage.sim.process import ProcessRun, SimulatedProcess
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_namespace, a_pod

SOON = DurationRange(0.1, 1.0)


class CountingCloud(KwokProvider):
    """Remembers what was made and deleted; its lists can be old."""

    lag = 0.0

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        super().__init__(api, clock)
        self.now = clock.now
        self.made: dict[str, float] = {}
        self.deleted: dict[str, float] = {}
        self.with_pods: list[str] = []
        """Nodes that were deleted with a pod on them."""
        self.delete_calls = 0
        self.stop_mid_delete: Callable[[], None] | None = None
        """Called once, when a Node is gone and its machine is not."""
        self.stop_after_delete: Callable[[], None] | None = None
        """Called once, when a machine is gone and its Node is not."""
        self.on_machine_end: Callable[[str], None] = lambda _name: None
        """Stops the kubelet of a machine."""
        self._lists: list[tuple[float, list[Instance]]] = []
        self._books = api

    @property
    def staleness(self) -> float:  # type: ignore[override]  # a constant of the class becomes one of the story
        return self.lag

    async def create(self, request: CreateRequest) -> CreateResult:
        try:
            return await super().create(request)
        finally:
            await self._note()

    async def delete(self, ids: Any) -> None:
        self.delete_calls += 1
        stop, self.stop_mid_delete = self.stop_mid_delete, None
        if stop is not None:
            await self._joining.remove(ids[0])
            stop()
            await asyncio.Event().wait()
        after, self.stop_after_delete = self.stop_after_delete, None
        if after is not None:
            await self._end_machine(ids[0])
            after()
            await asyncio.Event().wait()
        for one in ids:
            for pod in (await self._books.list(PODS)).items:
                if pod.spec.node_name == one and pod.status.phase not in ("Succeeded", "Failed"):
                    self.with_pods.append(one)
        await super().delete(ids)
        for one in ids:
            self.deleted.setdefault(one, self.now())
        await self._note()

    async def _end_machine(self, name: str) -> None:
        """End a machine as a real cloud does: its Node stays, and is not ready when its kubelet has been silent."""
        rest, _, place = name.rpartition("-")
        gone = frozenset({int(place)})
        await self._edit(rest.rpartition("-")[2], lambda record: replace(record, gone=record.gone | gone))
        self.deleted[name] = self.now()
        await self._note()
        self.on_machine_end(name)
        silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        await self._books.patch(NODES, name, MergePatch({"status": {"conditions": [silent]}}), subresource="status")

    async def _note(self) -> None:
        found = [one for record in await self._records() for one in self._instances(record)]
        for one in found:
            self.made.setdefault(one.id, one.since)
        self._lists.append((self.now(), found))

    async def list(self, pools: Any) -> Any:
        fresh = await super().list(pools)
        if not self.lag:
            return fresh
        moment = self.now() - self.lag
        old = [found for at, found in self._lists if at <= moment]
        joined = {one.id: one for one in fresh}
        return [joined.get(one.id, one) for one in (old[-1] if old else [])]


@dataclass
class Clocks:
    """How wrong the controller's clock is, in seconds."""

    skew: float = 0.0


class SkewedClock:
    """A process's clock that may be wrong. Seconds pass as they do."""

    def __init__(self, inner: Clock, clocks: Clocks) -> None:
        self._inner = inner
        self._clocks = clocks

    def now(self) -> Instant:
        return Instant(self._inner.now() + self._clocks.skew)

    def steady(self) -> Steady:
        return self._inner.steady()

    async def charge(self, cpu_seconds: float) -> None:
        await self._inner.charge(cpu_seconds)


@dataclass
class Stage:
    """Everything at work."""

    server: SimulatedApiServer
    api: KubeApi
    clock: Clock
    cloud: CountingCloud
    controller: SimulatedProcess
    start: float
    others: dict[str, CloudProvider] = field(default_factory=dict)
    """Further providers, by name."""
    clocks: Clocks = field(default_factory=Clocks)
    sizes: list[tuple[float, str, int]] = field(default_factory=list)

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.clock.now() - self.start

    async def pool(self, name: str = "pool", **fields: Any) -> None:
        """A provisioner of nodes with one GPU, unless said; fields by their paths."""
        plain = {
            "provider": {"name": "kwok", "parameters": {"bootSeconds": "20", "gpuSeconds": "5"}},
            "template.gpus.count": 1,
            "maxSize": 50,
            "minGPUUtilizationPercent": 80,
            "scaleDownDelay": "5m",
            "scaleUpBatch": "0s",
        }
        spec = with_fields(plain | {key.replace("__", "."): value for key, value in fields.items()}, SOUND)
        await self.api.create(NODE_PROVISIONERS, {"metadata": {"name": name}, "spec": spec})

    async def pods(self, names: list[str], gpus: int = 1, **more: Any) -> None:
        """Pods that want GPUs."""
        for name in names:
            plain: dict[str, Any] = {"schedulerName": "gpu-scheduler", "terminationGracePeriodSeconds": 0}
            body = a_pod(name, gpus=gpus, **(plain | more))
            await self.api.create(PODS, body, NS)

    async def leave(self, *names: str) -> None:
        for name in names:
            await self.api.delete(PODS, name, NS, how=DELETE_NOW)

    async def waiting(self) -> int:
        return sum(not pod.spec.node_name for pod in (await self.api.list(PODS)).items)

    async def nodes(self) -> dict[str, bool]:
        """Nodes by name, and whether each is to go."""
        found = (await self.api.list(NODES)).items
        return {n.metadata.name: any(taint.key == DELETION_TAINT for taint in n.spec.taints) for n in found}

    async def tainted(self) -> int:
        return sum((await self.nodes()).values())

    async def status(self, name: str = "pool") -> NodeProvisioner:
        return await self.api.get(NODE_PROVISIONERS, name)

    async def until(self, holds: Callable[[], Awaitable[Any]], seconds: float = 600.0) -> float:
        """Wait until it holds; returns the time then."""
        deadline = self.now + seconds
        while not await holds():
            assert self.now < deadline, f"not within {seconds:g} s: {await self.nodes()}"
            await asyncio.sleep(0.5)
        return self.now

    async def served(self, seconds: float = 600.0) -> float:
        """Until nobody waits."""

        async def nobody() -> bool:
            return not await self.waiting()

        return await self.until(nobody, seconds)

    async def has(self, count: int, seconds: float = 1200.0) -> float:
        """Until there are so many nodes."""

        async def so_many() -> bool:
            return len(await self.nodes()) == count

        return await self.until(so_many, seconds)


@dataclass(frozen=True)
class Surroundings:
    """What a controller finds."""

    cloud: CountingCloud
    others: dict[str, CloudProvider]
    clocks: Clocks


def a_controller(server: SimulatedApiServer, around: Surroundings, settings: Settings, seed: int) -> SimulatedProcess:
    """A process that can be crashed and started again."""
    lives = iter(range(1, 1_000_000))

    async def program(life: ProcessRun) -> None:
        rng = random.Random(f"{seed} {next(lives)}")
        api = RestApi(life.transport, rng=rng)
        while True:
            try:
                seeded = rng.getrandbits(32)
                host = ControllerEnvironment(
                    instance=f"controller-{seeded}", providers=ChainMap(around.others, {"kwok": around.cloud})
                )
                clock = SkewedClock(life.clock, around.clocks)
                await ProvisioningController(api, settings, clock, seed=seeded, host=host).run()
            except ApiError:
                await asyncio.sleep(1.0)

    network = NetworkConditions(seed=seed, latency=LATENCY)
    return SimulatedProcess(
        "controller",
        lambda: InMemoryTransport(server, user="controller", network=network),
        program,
    )


@asynccontextmanager
async def staged(seed: int, budget: FleetBudget) -> AsyncIterator[Stage]:
    clock = loop_clock()
    server = SimulatedApiServer(clock, seed=seed)
    api = an_api(server, seed)
    await install(api)
    await install(api, (POD_GROUP,))
    await api.create(NAMESPACES, a_namespace(LEASE_NAMESPACE))
    cloud = CountingCloud(an_api(server, seed + 7), clock)
    settings = Settings(provisioning=ProvisioningSettings(max_gpus=budget.gpus, max_price_per_hour=budget.price))
    around = Surroundings(cloud, {}, Clocks())
    controller = a_controller(server, around, settings, seed)
    scheduler = a_scheduler(server, 0, NetworkConditions(seed=seed, latency=LATENCY), seed)
    played = ControllerManagerSettings(behaviour=KubeletTimings(seed=seed, stop=SOON), seed=seed)
    async with start_actors(an_api(server, seed + 1), clock, played) as actors:
        cloud.on_machine_end = actors.kubelets.fail
        stage = Stage(server, api, clock, cloud, controller, clock.now(), around.others, around.clocks)
        tending = asyncio.ensure_future(cloud.run())
        watching = asyncio.ensure_future(_watch_bounds(stage))
        controller.start()
        scheduler.start()
        try:
            yield stage
        finally:
            controller.crash()
            scheduler.crash()
            tending.cancel()
            watching.cancel()
            ended = await asyncio.gather(tending, watching, return_exceptions=True)
    failures = [one for one in ended if isinstance(one, Exception)]
    assert not failures, failures
    assert cloud.with_pods == []


async def _watch_bounds(stage: Stage) -> None:
    """No pool is ever larger than it may be."""
    while True:
        await asyncio.sleep(1.0)
        pools = {one.metadata.name: one.spec for one in (await stage.api.list(NODE_PROVISIONERS)).items}
        present = [one for record in await stage.cloud._records() for one in stage.cloud._instances(record)]
        for name, spec in pools.items():
            size = sum(one.pool == name for one in present)
            assert size <= spec.max_size, f"{name} has {size} nodes at {stage.now}"


def play(
    story: Callable[[Stage], Awaitable[None]],
    *,
    seed: int = 1,
    budget: FleetBudget = FleetBudget(),  # noqa: B008 - frozen
) -> None:
    """Tell a story."""

    async def live() -> None:
        async with staged(seed, budget) as stage:
            await story(stage)

    run_virtual(live())
