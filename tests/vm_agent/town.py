"""One node with VMs, the scheduler's own permit handler and a vm-agent, in virtual time on the simulated API server."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from tests.sim.controllers.stage import Stage, on_stage, until
from tests.vms import GI, node_config, size, vm_config
from ullage.control.vms.permits import PermitHandler
from ullage.decide.vm_agent.goal import VmMetrics
from ullage.decide.vms.core import VmCore, VmRules
from ullage.errors import Unreachable
from ullage.kube.client.api import Binding, KubeApi, MergePatch
from ullage.kube.client.resources import NODES, PODS, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request, Response
from ullage.kube.crds.catalog import VM_KINDS
from ullage.kube.crds.install import install
from ullage.kube.read.vm import read_vm, read_vm_migration, read_vm_pod
from ullage.kube.write.vm import approval_annotations
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.vm import Vm, VmAmounts, VmPod
from ullage.observe.vm_agent_metrics import VmAgentMetrics
from ullage.sim.apiserver import InMemoryTransport
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.kubelet.timings import INSTANT
from ullage.sim.virtual_time import loop_clock
from ullage.sim.vms.controller import HypervisorTimings
from ullage.sim.vms.loop import simulated_vm_controller
from ullage.sim.vms.permit_transport import InMemoryPermits
from ullage.state.vm_ledger import VmLedger
from ullage.testing.builders import a_node, a_virtual_machine
from ullage.vm_agent.client import PermitClient
from ullage.vm_agent.executor import ScalingPolicy
from ullage.vm_agent.metrics_source import MetricsEndpoint, MetricsReading, MetricsTarget
from ullage.vm_agent.wiring import AgentOutside, VmAgent
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced

NS = "default"
UNIT = size(1, 4)
HOTPLUG = 2.0


def units(count: int) -> VmAmounts:
    return UNIT.times(count)


@dataclass
class ToldLoad:
    """MetricsSource: loads are set by the story and read every five seconds. None: the endpoint does not answer."""

    units: dict[str, int | None] = field(default_factory=dict)

    def configure(self, endpoint: MetricsEndpoint) -> None:
        """Keep the pace of the story."""

    async def readings(self, target: MetricsTarget) -> AsyncIterator[MetricsReading]:
        while True:
            count = self.units.get(target.vm.name, 1)
            if count is not None:
                yield MetricsReading(VmMetrics(load1=0.9 * count, load5=0.9 * count, memory_usage=GI))
            await asyncio.sleep(5.0)


class Line:
    """Transport to the scheduler that a story can disturb. Counts requests."""

    def __init__(self, handler: Callable[[], PermitHandler | None], node: str) -> None:
        self._inner = InMemoryPermits(handler, node)
        self.cut = False
        self.answer: Callable[[Response], Response] = lambda response: response
        self.sent: list[tuple[float, bytes]] = []

    async def send(self, request: Request) -> Response:
        self.sent.append((loop_clock().steady(), request.body or b""))
        if self.cut:
            raise Unreachable("cut")
        return self.answer(await self._inner.send(request))

    def stream(self, request: Request) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        return None


@dataclass
class Town:
    """A node `n`, its agent, and the scheduler."""

    stage: Stage
    core: VmCore
    load: ToldLoad
    line: Line
    agent: VmAgent

    async def vm(self, name: str) -> Vm:
        return read_vm(await self.stage.api.get(VIRTUAL_MACHINES, name, NS))

    async def pod(self, name: str) -> VmPod:
        found = read_vm_pod(await self.stage.api.get(PODS, name, NS))
        assert found is not None
        return found

    async def uses(self, name: str, count: int) -> float:
        """Wait until the VM has so many units."""

        async def so() -> bool:
            return (await self.vm(name)).use == units(count)

        return await until(so, 120)

    async def approved(self, name: str, count: int) -> float:
        async def so() -> bool:
            return (await self.pod(f"{name}-0")).approved == units(count)

        return await until(so, 120)

    async def add(self, name: str, use: int = 1, most: int = 8) -> None:
        """Create a VM; its pod is bound here with its first approval, as the scheduler does."""
        await self.stage.api.create(
            VIRTUAL_MACHINES.whole(), a_virtual_machine(name, use, most, schedulerName="nobody"), NS
        )
        await bind(self.stage, f"{name}-0", "n", units(use))


async def bind(stage: Stage, pod: str, node: str, approved: VmAmounts) -> None:
    async def is_there() -> bool:
        return pod in {one["metadata"]["name"] for one in await stage.pods()}

    await until(is_there)
    notes = MergePatch({"metadata": {"annotations": approval_annotations(approved)}})
    await stage.api.patch(PODS, pod, notes, NS)
    await stage.api.bind(pod, NS, Binding(node))


@asynccontextmanager
async def feeding(core: VmCore, api: KubeApi) -> AsyncIterator[None]:
    """The ledger follows the objects during the block."""
    ledger = core.ledger
    rng, clock = random.Random(9), loop_clock()
    specs: list[tuple[InformerSpec[Any, Any], Callable[[Any], None]]] = [
        (InformerSpec(VIRTUAL_MACHINES, read_vm), _into(ledger.put_vm, ledger.drop_vm)),
        (InformerSpec(PODS, read_vm_pod), _into(ledger.put_pod, ledger.drop_pod)),
        (
            InformerSpec(VIRTUAL_MACHINE_MIGRATIONS, read_vm_migration),
            _into(ledger.put_migration, ledger.drop_migration),
        ),
    ]
    informers = [Informer(api, spec, deliver, rng=rng, clock=clock) for spec, deliver in specs]
    task = asyncio.create_task(run_all(*informers))
    await wait_all_synced(*informers)
    try:
        yield
    finally:
        task.cancel()


def _into(put: Callable[[Any], None], drop: Callable[[ObjectKey], None]) -> Callable[[FactEvent[Any]], None]:
    """Deliver facts to the ledger. A fact of None holds no room."""

    def deliver(event: FactEvent[Any]) -> None:
        match event:
            case Added(key, fact) | Updated(key, _, fact):
                put(fact) if fact is not None else drop(key)
            case Deleted(key, _):
                drop(key)

    return deliver


@asynccontextmanager
async def a_town(stage: Stage, vms: str, *, migration: float = 20.0) -> AsyncIterator[Town]:
    await install(stage.api, VM_KINDS)
    await stage.api.create(NODES, a_node("n", allocatable={"cpu": "8500m", "memory": "33Gi"}))
    core = VmCore(VmLedger(vm_config(node_config(unit=UNIT))), VmRules())
    core.ledger.put_node("n", size(8.5, 33))
    handler = PermitHandler(core, stage.api, loop_clock())

    def client(user: str) -> KubeApi:
        wire = InMemoryTransport(stage.server, user=user, network=stage.network)
        return RestApi(wire, rng=random.Random(7))

    load, line = ToldLoad(), Line(lambda: handler, "n")
    outside = AgentOutside(client("vm-agent"), PermitClient(line), load)
    metrics = VmAgentMetrics(CollectorRegistry())
    agent = VmAgent("n", outside, ScalingPolicy(unit=UNIT), loop_clock(), metrics)
    town = Town(stage, core, load, line, agent)
    timings = HypervisorTimings(hotplug=HOTPLUG, migration=migration)
    async with (
        stage.actors(ControllerManagerSettings(INSTANT)),
        simulated_vm_controller(client("vms"), loop_clock(), timings),
        feeding(core, client("scheduler")),
    ):
        for name in vms:
            await town.add(name)
        task = asyncio.create_task(agent.run())
        try:
            yield town
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def told(
    vms: str, story: Callable[[Town], Awaitable[None]], *, watch_lag: float = 0.02, migration: float = 20.0
) -> None:
    """Run the story with these VMs of one unit each. `migration`: seconds a live migration copies."""

    async def on(stage: Stage) -> None:
        async with a_town(stage, vms, migration=migration) as town:
            await story(town)

    on_stage(on, watch_lag=watch_lag)
