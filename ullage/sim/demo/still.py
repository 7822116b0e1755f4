"""The cluster of `ullage demo`: four GPU nodes and ten pods on the simulated API server, in virtual time.

Until the scheduler is there, eight of the pods are bound by hand, by the same call a scheduler makes; the simulated
kubelets start them, and what is shown is what informers heard.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ullage.kube.api import Binding, KubeApi
from ullage.kube.resources import NODES, PODS
from ullage.kube.rest import RestApi
from ullage.model.resources import GPU
from ullage.sim.actors.start import Actors, ActorSettings
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.weather import Latency, Weather
from ullage.sim.time import loop_clock
from ullage.state.cluster import ClusterState
from ullage.watch.informer import run_all, wait_all_synced
from ullage.watch.picture import follow

NAMESPACE = "default"
GPUS_PER_NODE = 8
SETTLING_SECONDS = 30.0
"""Of virtual time: images are pulled and containers started."""
PLACES = {"train-a": ("gpu-1", 8), "train-b": ("gpu-2", 4), "train-c": ("gpu-2", 2), "train-d": ("gpu-3", 4),
          "infer-1": ("gpu-2", 1), "infer-2": ("gpu-3", 1), "infer-3": ("gpu-3", 1), "notebook": ("gpu-4", 1),
          "train-e": ("", 8), "train-f": ("", 8)}  # fmt: skip
"""Pod to node and GPUs; the last two wait: 8 GPUs are free on no node, though 10 are free in all."""


async def play(seed: int) -> ClusterState:
    """Build the cluster, let it settle, and return what informers heard."""
    clock = loop_clock()
    server = SimulatedApiServer(clock, seed=seed)
    weather = Weather(seed=seed, latency=Latency())
    api = RestApi(InMemoryTransport(server, weather=weather), rng=random.Random(seed))
    state = ClusterState()
    informers = await follow(api, state, rng=random.Random(seed), clock=clock)
    async with _running(run_all(*informers), Actors(api, clock, ActorSettings(seed=seed)).run()):
        await wait_all_synced(*informers)
        for number in range(1, 5):
            await api.create(NODES, _node(f"gpu-{number}"))
        for name, (node, gpus) in PLACES.items():
            await _submit(api, name, node, gpus)
        await asyncio.sleep(SETTLING_SECONDS)
    return state


@asynccontextmanager
async def _running(*work: Any) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _submit(api: KubeApi, name: str, node: str, gpus: int) -> None:
    amounts = {"cpu": str(8 * gpus), "memory": f"{64 * gpus}Gi", GPU: str(gpus)}
    container = {"name": "main", "image": "example.test/main:v1", "resources": {"limits": amounts}}
    spec = {"schedulerName": "gpu-scheduler", "containers": [container]}
    pod = await api.create(PODS, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)
    if node:
        await api.bind(name, NAMESPACE, Binding(node, uid=pod.metadata.uid))


def _node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "96", "memory": "768Gi", "pods": "110", GPU: str(GPUS_PER_NODE)}
    return {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}
