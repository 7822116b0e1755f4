"""A node with simulated GPUs and its agent, on the simulated API server in virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ullage.agent.podresources import AllocatedDevices, KubeletUnavailable, PodResources
from ullage.agent.processes import ProcFs
from ullage.agent.simulated import SimulatedReader, read_gpu_set
from ullage.agent.wiring import AgentHost, AgentSettings, NodeAgent
from ullage.decide.inventory.node_kind import NodeKindMode
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import EVENTS, GPU_NODE_STATUSES, NAMESPACES, NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.install import install
from ullage.kube.objects.gpu import GpuDevice, GpuNodeReport
from ullage.model.allocation import ALLOCATED
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import NetworkConditions
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_namespace, a_node, a_pod

NODE = "gpu-1"
LEASES = "ullage-system"


class Processes(ProcFs):
    """Processes that exist because a story says so."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.alive: dict[int, str] = {}
        self.boot = "boot-1"

    def owner(self, pid: int) -> str | None:
        return self.alive.get(pid)

    def name(self, pid: int) -> str:
        return f"process-{pid}"

    def boot_id(self) -> str:
        return self.boot


class Plugin(PodResources):
    """What kubelet would say of a device plugin; silent until it has something to say."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.devices: frozenset[str] | None = None
        self.pods: list[AllocatedDevices] = []

    async def managed(self) -> frozenset[str]:
        if self.devices is None:
            raise KubeletUnavailable("not here")
        return self.devices

    async def given(self) -> tuple[AllocatedDevices, ...]:
        return tuple(self.pods)


@dataclass
class Stage:
    """One node; what is on it can be changed while the agent looks."""

    api: KubeApi
    agents_api: KubeApi
    mode: NodeKindMode = NodeKindMode.LEASED
    board: str = "8xH100-SXM"
    leases: str = LEASES
    proc: Processes = field(default_factory=Processes)
    plugin: Plugin = field(default_factory=Plugin)
    reader: SimulatedReader = field(init=False)
    agent: NodeAgent | None = None

    def __post_init__(self) -> None:
        self.reader = SimulatedReader(read_gpu_set(self.board), NODE)

    @asynccontextmanager
    async def agent_running(self) -> AsyncIterator[NodeAgent]:
        """An agent of its own life: what it remembers, it has from the API server."""
        self.agent = NodeAgent(
            self.agents_api,
            AgentHost(self.reader, self.proc, self.plugin),
            AgentSettings(NODE, self.mode, self.leases),
            loop_clock(),
            instance="agent-1",
            seed=1,
        )
        task = asyncio.ensure_future(self.agent.run())
        await asyncio.sleep(1)
        try:
            yield self.agent
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def report(self) -> GpuNodeReport:
        return (await self.api.get(GPU_NODE_STATUSES, NODE)).status

    async def gpu(self, number: int) -> GpuDevice:
        return next(device for device in (await self.report()).devices if device.id == number)

    async def condition(self, kind: str) -> tuple[str, str, str]:
        found = next(one for one in (await self.report()).conditions if one.type == kind)
        return found.status, found.reason, found.message

    async def told(self) -> list[tuple[str, str, str]]:
        """Events: what they are about, the reason, the note."""
        events: list[Any] = list((await self.api.list(EVENTS)).items)
        found = [(f"{e['regarding']['kind']}/{e['regarding']['name']}", e["reason"], e["note"]) for e in events]
        return sorted(found)

    async def pod(self, name: str, *gpus: int) -> str:
        """A pod on this node with these GPUs; returns its uid."""
        notes = {ALLOCATED: f"{NODE}:{','.join(map(str, gpus))}"} if gpus else None
        made = await self.api.create(PODS, a_pod(name, annotations=notes, nodeName=NODE), "default")
        return made.metadata.uid

    def runs(self, gpu: int, pid: int, uid: str, *, utilisation: int = 50) -> None:
        """A process of a pod (or of the host) starts on a GPU."""
        self.proc.alive[pid] = uid
        self.reader.runs(gpu, pid, utilisation=utilisation)


def play(
    story: Callable[[Stage], Coroutine[Any, Any, None]],
    *,
    network: NetworkConditions | None = None,
    **stage: Any,
) -> None:
    """Tell a story on a fresh cluster."""

    async def told() -> None:
        server = SimulatedApiServer(loop_clock(), seed=1)
        api = RestApi(InMemoryTransport(server), rng=random.Random(1))
        agents_api = RestApi(InMemoryTransport(server, network=network), rng=random.Random(2))
        await install(api)
        await api.create(NAMESPACES, a_namespace(LEASES))
        await api.create(NODES, a_node(NODE))
        await story(Stage(api, agents_api, **stage))

    run_virtual(told())
