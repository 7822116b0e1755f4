"""Two schedulers that take turns on one API server: the stage, how each is started, and what is seen of their work.

Both reach the API server with the same bearer token, as a program in a cluster does, and neither is held back by its
client's own rate limit. Whoever has its turn finds the nodes empty and runs alone.
"""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.population import create_all, each_of, nodes_with_gpus, report_inventories
from ullage.clock import WallClock
from ullage.deploy.applying import ensure_namespace
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import DELETE_NOW, KubeApi
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import EVENTS, GPU_CLAIMS, LEASES, NODES, PODS
from ullage.kube.crds.install import install
from ullage.model.fact_event import Added, FactEvent, Updated
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, GoProgram, StaticToken
from ullage.watch.informer import Informer, InformerSpec

OURS, PEER, PACKING_PEER = "gpu-scheduler", "default-scheduler", "packing-scheduler"
LEASE_NAMESPACE = "ullage-system"

_PROGRAM = Path(sys.executable).with_name("ullage")
_TOKEN = "bench"
_UNLIMITED = {"qps": 10_000, "burst": 20_000}
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stage:
    """One API server with nodes, for both."""

    plane: ControlPlane
    api: KubeApi
    kubeconfig: Path


Start = Callable[[Stage], AbstractContextManager[int]]
"""Starts a scheduler, gives its process id, and ends it."""


@asynccontextmanager
async def stage(nodes: int, profiles: Sequence[Mapping[str, Any]] = ()) -> AsyncIterator[Stage]:
    """A control plane whose etcd waits for the disk, with this many nodes of eight GPUs."""
    settings: dict[str, object] = {"profiles": list(profiles)} if profiles else {}
    token = StaticToken(token=_TOKEN, user="scheduler", groups=("system:masters",))
    spec = ControlPlaneSpec(fsync=True, tokens=[token], scheduler_config=settings)
    plane = await asyncio.to_thread(lambda: ControlPlane(spec).__enter__())
    try:
        kubeconfig = plane.kubeconfig_with_token(_TOKEN)
        # Read when kube-scheduler starts, which is later: the kubeconfig is there only now.
        settings["clientConnection"] = {"kubeconfig": str(kubeconfig), **_UNLIMITED}
        api = connect(kubeconfig)
        try:
            await install(api)
            await ensure_namespace(api, LEASE_NAMESPACE)
            made = nodes_with_gpus(nodes)
            await create_all(api, NODES, made, "")
            await report_inventories(api, [node["metadata"]["name"] for node in made])
            yield Stage(plane, api, kubeconfig)
        finally:
            await api.close()
    finally:
        await asyncio.to_thread(plane.__exit__, None, None, None)


@contextmanager
def ours(stage: Stage) -> Iterator[int]:
    """`ullage scheduler`, as users start it."""
    command = (_PROGRAM, "scheduler", "--kubeconfig", stage.kubeconfig, "--no-leader-election")
    with _running(command) as pid:
        yield pid


def writes_alone(namespace: str) -> Start:
    """The three writes of a placement and nothing else, for the pods of this namespace."""

    @contextmanager
    def start(stage: Stage) -> Iterator[int]:
        command = (sys.executable, "-m", "bench.writes_alone", stage.kubeconfig, namespace)
        with _running(command) as pid:
            yield pid

    return start


@contextmanager
def _running(command: Sequence[str | Path]) -> Iterator[int]:
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def kube_scheduler(stage: Stage) -> Iterator[int]:
    """kube-scheduler with its defaults."""
    stage.plane.start(GoProgram.SCHEDULER)
    try:
        yield stage.plane.pid(GoProgram.SCHEDULER)
    finally:
        stage.plane.kill(GoProgram.SCHEDULER)


class Sightings:
    """When each object of a namespace was first seen as it is wanted, by its name."""

    def __init__(self, api: KubeApi, resource: Resource[Any], namespace: str, is_wanted: Callable[[Any], bool]) -> None:
        self.changes: dict[str, float] = {}
        self._news = asyncio.Event()
        interest = InformerSpec(resource, lambda thing: (thing.metadata.name, is_wanted(thing)), namespace=namespace)
        self._informer = Informer(api, interest, self._hear, rng=random.Random(0), clock=WallClock())

    def _hear(self, event: FactEvent[Any]) -> None:
        if isinstance(event, Added | Updated) and event.new[1] and event.new[0] not in self.changes:
            self.changes[event.new[0]] = time.monotonic()
            self._news.set()

    @asynccontextmanager
    async def lasting(self) -> AsyncIterator[None]:
        """Look as long as this lasts."""
        watching = asyncio.ensure_future(self._informer.run())
        try:
            await self._informer.wait_synced()
            yield
        finally:
            watching.cancel()

    async def wait(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Until this holds; False if nothing was seen for so long."""
        while not holds():
            self._news.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                return False
        return True


def binds(api: KubeApi, namespace: str) -> Sightings:
    """Pods, when they were seen bound."""
    return Sightings(api, PODS, namespace, lambda pod: bool(pod.spec.node_name))


async def events_in(api: KubeApi, namespace: str) -> int:
    """How many Events there are."""
    async for page in api.pages(EVENTS, namespace, chunk=1):
        return len(page.items) + page.remaining
    return 0


async def clear(stage: Stage, namespace: str) -> None:
    """Take away the pods and claims of a turn and the Leases of their GPUs."""
    places: tuple[tuple[Resource[Any], str], ...] = (
        (PODS, namespace),
        (GPU_CLAIMS, namespace),
        (LEASES, LEASE_NAMESPACE),
    )
    for resource, where in places:
        await _delete_all(stage.api, resource, where)


async def _delete_all(api: KubeApi, resource: Resource[Any], namespace: str) -> None:
    names = [item.metadata.name for item in (await api.list(resource, namespace)).items]
    await each_of(names, lambda name: api.delete(resource, name, namespace, how=DELETE_NOW))


def processor_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """How long each of these processes has been on a processor."""
    return {name: _of(Path(f"/proc/{pid}/stat").read_text()) for name, pid in pids.items()}


def _of(stat: str) -> float:
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
