"""A pool of nodes with four GPUs each in virtual time: scheduler, controller with its drain loop, fake machines.

Watched all the time: no disruption budget below its minimum, no node deleted with a pod on it, nothing bought.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from tests.control.provisioning.stage import Clocks, CountingCloud, SkewedClock, Surroundings
from tests.control.scheduling.stage import LATENCY, LEASE_NAMESPACE, NS, a_scheduler, an_api
from tests.kube.crds.bad_provisioners import SOUND, with_fields
from ullage.clock import Clock
from ullage.config.settings import DrainingSettings, Settings
from ullage.control.draining.wiring import DrainController
from ullage.control.provisioning.wiring import ControllerEnvironment, ProvisioningController
from ullage.errors import ApiError
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import (
    BUDGETS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    NODE_PROVISIONERS,
    NODES,
    PODS,
)
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.catalog import POD_GROUP
from ullage.kube.crds.install import install
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.model.units import Seconds
from ullage.observe.draining_metrics import DrainMetrics
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import NetworkConditions
from ullage.sim.controllers.wiring import ControllerManager, ControllerManagerSettings, start_actors
from ullage.sim.kubelet.timings import DurationRange, KubeletTimings
from ullage.sim.process import ProcessRun, SimulatedProcess
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_budget, a_namespace, a_pod_spec, a_workload

SOON = DurationRange(0.1, 1.0)
GPUS = 4
QUICK = DrainingSettings(
    node_delete_delay_after_taint=Seconds(2.0),
    max_pod_eviction_time=Seconds(40.0),
    scale_down_delay_after_failure=Seconds(60.0),
    scan_interval=Seconds(2.0),
)


@dataclass
class Stage:
    """Everything at work."""

    server: SimulatedApiServer
    api: KubeApi
    clock: Clock
    cloud: CountingCloud
    controller: SimulatedProcess
    network: NetworkConditions
    """What befalls the controller's calls."""
    drainings: list[DrainController]
    """One for each life of the controller."""
    start: float
    actors: ControllerManager
    """Kubelets, and the controllers that make pods again."""
    clocks: Clocks
    most_draining: int = 0
    """Nodes that were being drained at the same time."""
    broken: list[str] = field(default_factory=list)

    @property
    def now(self) -> float:
        return self.clock.now() - self.start

    async def pool(self, size: int, **fields: Any) -> None:
        """A pool with so many nodes, which are all there when this returns. It may shrink to nothing afterwards."""
        plain = {
            "provider": {"name": "kwok", "parameters": {}},
            "template.gpus.count": GPUS,
            "minSize": size,
            "maxSize": 50,
            "scaleUpBatch": "0s",
            "consolidation": {
                "policy": "Drain",
                "unneededTime": "30s",
                "unreadyTime": "60s",
                "maxScaleDownParallelism": 10,
                "maxDrainParallelism": 5,
            },
        }
        spec = with_fields(plain | {key.replace("__", "."): value for key, value in fields.items()}, SOUND)
        await self.api.create(NODE_PROVISIONERS, {"metadata": {"name": "pool"}, "spec": spec})
        await self.has(size)

    async def spec(self, **fields: Any) -> None:
        """Change the pool."""
        await self.api.patch(NODE_PROVISIONERS, "pool", MergePatch({"spec": fields}))

    async def deployment(self, name: str, replicas: int, gpus: int = 1, *, wait: bool = True, **pod: Any) -> None:
        """Pods that come again; all of them run when this returns, unless nobody is to `wait` for that."""
        plain: dict[str, Any] = {"schedulerName": "gpu-scheduler", "terminationGracePeriodSeconds": 5}
        body = a_workload(name, pod=a_pod_spec(gpus=gpus, **(plain | pod)), replicas=replicas)
        await self.api.create(DEPLOYMENTS, body, NS)
        if wait:
            await self.served()

    async def budget(self, name: str, **spec: Any) -> None:
        await self.api.create(BUDGETS, a_budget(name, {"app": name}, **spec), NS)

    async def one_on_each(self, size: int, app: str = "web", *, apart: bool = False) -> None:
        """A pool in which every node has one pod with one GPU: a quarter of it, so that a quarter would do.

        `apart`: each pod is the only one of its owner.
        """
        await self.pool(size)
        await self.deployment("filler", size, gpus=GPUS - 1)
        for name, replicas in {f"{app}-{number}": 1 for number in range(size)}.items() if apart else [(app, size)]:
            await self.deployment(name, replicas)
        await self.api.delete(DEPLOYMENTS, "filler", NS)

        async def filler_is_gone() -> bool:
            pods = (await self.api.list(PODS, NS)).items
            return not any(pod.metadata.labels.get("app") == "filler" for pod in pods)

        await self.until(filler_is_gone)

    async def may_shrink(self) -> None:
        await self.spec(minSize=0)

    async def nodes(self) -> list[str]:
        return sorted(node.metadata.name for node in (await self.api.list(NODES)).items)

    async def tainted(self, key: str = DRAINING_TAINT) -> list[str]:
        """Nodes with one of our taints."""
        found = (await self.api.list(NODES)).items
        return sorted(node.metadata.name for node in found if any(taint.key == key for taint in node.spec.taints))

    async def pods_on(self, node: str) -> list[str]:
        pods = (await self.api.list(PODS, NS)).items
        return sorted(pod.metadata.name for pod in pods if pod.spec.node_name == node)

    async def candidates(self) -> list[str]:
        return await self.tainted(CANDIDATE_TAINT)

    async def told(self, kind: str) -> set[str]:
        """Reasons of Events about objects of a kind."""
        return {one["reason"] for one in (await self.api.list(EVENTS)).items if one["regarding"]["kind"] == kind}

    async def notes(self, reason: str) -> list[str]:
        return [one["note"] for one in (await self.api.list(EVENTS)).items if one["reason"] == reason]

    async def condition(self, kind: str) -> str:
        status = (await self.api.get(NODE_PROVISIONERS, "pool")).status
        return next((one.status for one in status.conditions if one.type == kind), "")

    async def until(self, holds: Callable[[], Awaitable[Any]], seconds: float = 600.0, every: float = 0.5) -> float:
        """Wait until it holds; returns the time then."""
        deadline = self.now + seconds
        while not await holds():
            assert self.now < deadline, f"not within {seconds:g} s: {await self.nodes()} {await self.tainted()}"
            await asyncio.sleep(every)
        return self.now

    async def served(self, seconds: float = 600.0) -> float:
        """Until all pods that are to be there run."""

        async def nobody_waits() -> bool:
            wanted = sum(one.spec.replicas or 0 for one in (await self.api.list(DEPLOYMENTS, NS)).items)
            pods = (await self.api.list(PODS, NS)).items
            return sum(pod.status.phase == "Running" for pod in pods) >= wanted

        return await self.until(nobody_waits, seconds)

    async def has(self, count: int, seconds: float = 1200.0) -> float:
        """Until there are so many nodes."""

        async def so_many() -> bool:
            return len(await self.nodes()) == count

        return await self.until(so_many, seconds)

    def plans(self) -> float:
        """Plans made in this life of the controller."""
        metrics = self.drainings[-1].metrics
        assert metrics is not None
        called = {"function": "PlanDrain"}
        return metrics.registry.get_sample_value("ullage_function_duration_seconds_count", called) or 0.0

    async def at_rest(self, count: int, seconds: float = 1200.0) -> None:
        """Until there are so many nodes, nothing of ours is on them, all pods run; and it stays so for a while."""
        await self.has(count, seconds)
        await self.served()
        await asyncio.sleep(120)
        assert len(await self.nodes()) == count
        assert await self.tainted() == []
        assert not any(node.spec.unschedulable for node in (await self.api.list(NODES)).items)


def a_controller(
    server: SimulatedApiServer,
    around: Surroundings,
    settings: DrainingSettings,
    drainings: list[DrainController],
    network: NetworkConditions,
    seed: int,
) -> SimulatedProcess:
    """A process that can be crashed and started again."""
    lives = iter(range(1, 1_000_000))

    async def program(life: ProcessRun) -> None:
        rng = random.Random(f"{seed} {next(lives)}")
        api = RestApi(life.transport, rng=rng)
        while True:
            try:
                seeded = rng.getrandbits(32)
                host = ControllerEnvironment(instance=f"controller-{seeded}", providers={"kwok": around.cloud})
                clock = SkewedClock(life.clock, around.clocks)
                provisioning = ProvisioningController(api, Settings(), clock, seed=seeded, host=host)
                drainings.append(
                    DrainController(
                        provisioning, Settings(draining=settings), metrics=DrainMetrics(CollectorRegistry())
                    )
                )
                await drainings[-1].run()
            except ApiError:
                await asyncio.sleep(1.0)

    return SimulatedProcess(
        "controller",
        lambda: InMemoryTransport(server, user="controller", network=network),
        program,
    )


@asynccontextmanager
async def staged(seed: int, settings: DrainingSettings) -> AsyncIterator[Stage]:
    clock = loop_clock()
    server = SimulatedApiServer(clock, seed=seed)
    api = an_api(server, seed)
    await install(api)
    await install(api, (POD_GROUP,))
    await api.create(NAMESPACES, a_namespace(LEASE_NAMESPACE))
    cloud = CountingCloud(an_api(server, seed + 7), clock)
    network, drainings = NetworkConditions(seed=seed, latency=LATENCY), list[DrainController]()
    around = Surroundings(cloud, {}, Clocks())
    controller = a_controller(server, around, settings, drainings, network, seed)
    scheduler = a_scheduler(server, 0, NetworkConditions(seed=seed, latency=LATENCY), seed)
    played = ControllerManagerSettings(behaviour=KubeletTimings(seed=seed, stop=SOON), seed=seed)
    async with start_actors(an_api(server, seed + 1), clock, played) as actors:
        stage = Stage(server, api, clock, cloud, controller, network, drainings, clock.now(), actors, around.clocks)
        beside = [asyncio.ensure_future(cloud.run()), asyncio.ensure_future(_watched(stage))]
        controller.start()
        scheduler.start()
        try:
            yield stage
        finally:
            controller.crash()
            scheduler.crash()
            for one in beside:
                one.cancel()
            ended = await asyncio.gather(*beside, return_exceptions=True)
    failures = [one for one in ended if isinstance(one, Exception)]
    assert not failures, failures
    assert cloud.with_pods == []
    assert stage.broken == []


async def _watched(stage: Stage) -> None:
    """Budgets hold, by their own counts."""
    while True:
        await asyncio.sleep(0.2)
        stage.most_draining = max(stage.most_draining, len(await stage.tainted()))
        for one in (await stage.api.list(BUDGETS)).items:
            if one.status.current_healthy < one.status.desired_healthy:
                stage.broken.append(f"{stage.now:.1f} {one.metadata.name}")


def play(story: Callable[[Stage], Awaitable[None]], *, seed: int = 1, settings: DrainingSettings = QUICK) -> None:
    """Tell a story."""

    async def live() -> None:
        async with staged(seed, settings) as stage:
            await story(stage)

    run_virtual(live())
