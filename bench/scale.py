"""A large cluster, 5,000 nodes of 8 GPUs and 100,000 pods: what the scheduler needs, and how long loops are held.

No API for the snapshot and its events: facts are told to the core, as informers do, and decisions are asked for. What a
take-over takes is measured on a simulated server with a tenth of the objects; what agents ask for is counted on one.
Times are CPU time, the least of several: a shared machine is never faster than it is.
"""

import asyncio
import gc
import random
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import replace as replace_figure
from pathlib import Path

from msgspec.structs import replace

from bench.plan_holds import planning_holds
from bench.record import Figure
from bench.scale_cluster import NOW, a_node, a_pod, an_inventory, large_core, node_name
from bench.scale_holds import scheduler_holds
from ullage.act.concurrency import ended
from ullage.agent.processes import ProcFs
from ullage.agent.simulated import SimulatedReader, read_gpu_set
from ullage.agent.wiring import AgentHost, AgentSettings, NodeAgent
from ullage.clock import WallClock
from ullage.config.settings import SchedulingSettings, Settings
from ullage.control.scheduling.wiring import Scheduler
from ullage.decide.inventory.node_kind import NodeKindMode
from ullage.decide.scheduling.core import SchedulerCore
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import NAMESPACES, NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request, Response
from ullage.kube.crds.install import install
from ullage.model.fact_event import Added, Deleted, ObjectKey, Updated
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_namespace
from ullage.testing.builders import a_node as a_node_manifest
from ullage.testing.builders import a_pod as a_pod_manifest

NODES_OF_ALL, PODS_PER_NODE = 5_000, 20
BEFORE = "f13395a"
FIGURES_BEFORE: Mapping[str, float] = {
    "start-up: 5,000 nodes, 100,000 pods": 2.06,
    "memory of the process": 171.18,
    "event: agent reports": 0.03,
    "event: pod changes": 0.03,
    "event: pod appears": 0.06,
    "event: pod leaves": 0.02,
    "event: node changes": 0.03,
    "event: node appears": 0.05,
    "requests of 5,000 agents": 646.67,
    "hold: preemption for 1 GPUs, beside decisions": 109.0,
    "hold: preemption for 8 GPUs, beside decisions": 110.0,
    "hold: preemption, everybody protected, beside decisions": 551.0,
    "hold: a pod that makes up 800 names": 6_344.0,
}
"""The same figures of that commit, on the machine the kept results are from. Of holds, the longest."""

RUNS = 3
AGENT_SECONDS = 3_000.0


def run(scale: float) -> list[Figure]:
    """Memory, start-up, events, longest holds, agents, take-over."""
    nodes = max(int(NODES_OF_ALL * scale), 50)
    gc.collect()
    began = time.process_time()
    core = large_core(nodes, PODS_PER_NODE)
    start_up = time.process_time() - began
    measured = {f"start-up: {nodes:,} nodes, {nodes * PODS_PER_NODE:,} pods": (start_up, "CPU s")}
    measured["memory of the process"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB")
    measured |= {f"event: {name}": (value, "ms") for name, value in events(core).items()}
    measured[f"requests of {nodes:,} agents"] = (agents_per_second() * nodes, "/s")
    figures = [_figure(name, unit, value, full=scale == 1.0) for name, (value, unit) in measured.items()]
    holds = [*scheduler_holds(core), *planning_holds(core.snapshot)]
    figures += [_with_hold_before(figure) for figure in holds] if scale == 1.0 else holds
    cold, warm = asyncio.run(take_over(max(nodes // 10, 10), PODS_PER_NODE))
    figures.append(Figure("take-over after the lease, a tenth of it", "s", warm, cold, "without a warm snapshot"))
    return figures


def _figure(name: str, unit: str, value: float, *, full: bool) -> Figure:
    before = FIGURES_BEFORE.get(name) if full else None
    return Figure(name, unit, value, before, BEFORE if before is not None else "")


def _with_hold_before(figure: Figure) -> Figure:
    """The longest hold of a kind of work, with that of the commit before."""
    kind, _, _ = figure.name.partition(", longest of ")
    before = FIGURES_BEFORE.get(kind)
    return figure if before is None else replace_figure(figure, before=before, before_name=BEFORE)


def least(work: Callable[[], object], runs: int = RUNS) -> float:
    """Milliseconds."""
    times = []
    for _ in range(runs):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times) * 1000


def events(core: SchedulerCore) -> dict[str, float]:
    """One event of each kind, and the decisions it leads to."""
    pods, nodes = core.snapshot.state.pods, core.snapshot.state.nodes
    inventories = core.snapshot.state.inventories

    def heard(event: object) -> None:
        core.apply(event, now=NOW)  # type: ignore[arg-type]  # each is an event of a fact
        while core.next_decision(now=NOW) is not None:
            pass

    def pod_appears() -> None:
        pod = a_pod(f"new-{next(numbers)}", "")
        heard(Added(pod.key, pod))

    def pod_changes() -> None:
        key = next(keys)
        heard(Updated(key, pods[key], replace(pods[key], labels={"app": "other"})))

    def pod_leaves() -> None:
        key = next(keys)
        heard(Deleted(key, pods[key]))

    def node_changes() -> None:
        node = nodes[next(names)]
        heard(Updated(ObjectKey("", node.name), node, replace(node, unschedulable=not node.unschedulable)))

    def agent_reports() -> None:
        old = inventories[next(names)]
        heard(Updated(ObjectKey("", old.node), old, replace(old, reported_at=old.reported_at + 0.001)))

    def node_appears() -> None:
        name = f"extra-{next(numbers)}"
        heard(Added(ObjectKey("", name), a_node(name)))
        heard(Added(ObjectKey("", name), an_inventory(name)))

    numbers, keys, names = iter(range(10**6)), iter(sorted(pods)), iter(sorted(nodes))
    found = {kind.__name__.replace("_", " "): least(kind, 20) for kind in (agent_reports, pod_changes, pod_leaves)}
    least(pod_appears, 20)  # the cluster is full again
    found["pod appears"] = least(pod_appears, 20)
    # These wait. A pod that leaves now leads to a decision: one that waits gets the place at once.
    found["pod leaves, and one that waits is placed"] = least(pod_leaves, 20)
    found |= {kind.__name__.replace("_", " "): least(kind, 20) for kind in (node_changes, node_appears)}
    for name in [name for name in nodes if name.startswith("extra-")]:  # what follows needs a full cluster
        core.apply(Deleted(ObjectKey("", name), inventories[name]), now=NOW)
        core.apply(Deleted(ObjectKey("", name), nodes[name]), now=NOW)
    return found


class _Counting:
    """A transport that counts calls."""

    def __init__(self, inner: InMemoryTransport) -> None:
        self._inner = inner
        self.calls = 0
        self.stream = inner.stream

    async def send(self, request: Request) -> Response:
        self.calls += 1
        return await self._inner.send(request)

    async def close(self) -> None:
        await self._inner.close()


def agents_per_second() -> float:
    """Requests of one agent on a node where nothing happens."""
    found: list[float] = []

    async def live() -> None:
        clock = loop_clock()
        server = SimulatedApiServer(clock, seed=1)
        api = RestApi(InMemoryTransport(server), rng=random.Random(1))
        await install(api)
        await api.create(NAMESPACES, a_namespace("ullage-system"))
        await api.create(NODES, {"metadata": {"name": "n1"}, "status": {}})
        counting = _Counting(InMemoryTransport(server, user="agent"))
        host = AgentHost(SimulatedReader(read_gpu_set("8xH100-SXM"), "n1"), ProcFs(Path("/nonexistent")))
        own = RestApi(counting, rng=random.Random(2))
        agent = NodeAgent(own, host, AgentSettings("n1", NodeKindMode.LEASED), clock, instance="i", seed=1)
        running = asyncio.ensure_future(agent.run())
        await asyncio.sleep(60)
        counting.calls = 0
        await asyncio.sleep(AGENT_SECONDS)
        found.append(counting.calls / AGENT_SECONDS)
        await ended(running)

    run_virtual(live())
    return found[0]


async def take_over(nodes: int, pods_per_node: int) -> tuple[float, float]:
    """Seconds from the lease until decisions are made: by one that starts then, and by one that stood by."""
    server = SimulatedApiServer(WallClock(), seed=1)
    api = RestApi(InMemoryTransport(server), rng=random.Random(1))
    await install(api)
    await api.create(NAMESPACES, a_namespace("ullage-system"))
    for number in range(nodes):
        name = node_name(number)
        await api.create(NODES, a_node_manifest(name))
        for place in range(pods_per_node):
            await api.create(PODS, a_pod_manifest(f"{name}-{place}", nodeName=name), "default")
    elected = asyncio.Event()
    elected.set()
    cold = await _until_ready(api, elected)
    return cold, await _until_ready(api, asyncio.Event())


async def _until_ready(api: KubeApi, elected: asyncio.Event) -> float:
    """Whoever is not elected yet is so as soon as it has heard everything."""
    scheduler = Scheduler(
        api, Settings(scheduling=SchedulingSettings(release_leases=False)), WallClock(), instance="one", seed=1
    )
    began = time.perf_counter()
    running = asyncio.ensure_future(scheduler.run(elected.wait))
    if not elected.is_set():
        while scheduler.unready:  # noqa: ASYNC110 - no part of what is measured
            await asyncio.sleep(0.05)
        began = time.perf_counter()
        elected.set()
    await scheduler.wait_ready()
    took = time.perf_counter() - began
    await ended(running)
    return took
