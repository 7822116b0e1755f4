"""Pods bound per second, one GPU each: ours with a Lease, a bind and an Event per pod, kube-scheduler without Leases.

Both get 1,000 nodes and 4,000 pods created beforehand on a control plane of their own, one after the other, with the
same etcd. Counted from the start of the scheduler's first bind to its last, as a watcher of the pods sees it.
"""

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.population import create_all
from bench.record import Figure
from ullage.cli.install import ensure_namespace
from ullage.clock import WallClock
from ullage.kube.api import KubeApi
from ullage.kube.connect import connect
from ullage.kube.crds.install import install
from ullage.kube.gpu_write import apply_node, apply_status, node_report
from ullage.kube.resources import GPU_NODE_STATUSES, NODES, PODS
from ullage.model.device import Device, Inventory
from ullage.model.event import Appeared, Changed, Event
from ullage.testing.builders import a_node, a_pod
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, Program
from ullage.watch.informer import Informer, Interest

NODES_THERE, PODS_THERE = 1_000, 4_000
PROMISED = 2.0
PROGRAM = Path(sys.executable).with_name("ullage")
AT_ONCE = 64
PATIENCE_SECONDS = 300.0


def run(scale: float) -> list[Figure]:
    """Both schedulers, one after the other."""
    nodes, pods = int(NODES_THERE * scale), int(PODS_THERE * scale)
    ours = asyncio.run(_measure(nodes, pods, "gpu-scheduler", _ours))
    peer = asyncio.run(_measure(nodes, pods, "default-scheduler", _kube_scheduler))
    return [
        Figure(
            "one-GPU pods bound per second",
            "pods/s",
            ours,
            peer,
            "kube-scheduler",
            PROMISED,
            more_is_better=True,
        )
    ]


@contextmanager
def _ours(plane: ControlPlane) -> Iterator[None]:
    command: tuple[str | Path, ...] = (PROGRAM, "scheduler", "--kubeconfig", plane.kubeconfig)
    process = subprocess.Popen((*command, "--no-leader-election"))
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _kube_scheduler(plane: ControlPlane) -> Iterator[None]:
    plane.start(Program.SCHEDULER)
    yield


async def _measure(nodes: int, pods: int, scheduler: str, started: Callable[[ControlPlane], Any]) -> float:
    spec = ControlPlaneSpec(fsync=True)
    plane = await asyncio.to_thread(lambda: ControlPlane(spec).__enter__())
    api = connect(plane.kubeconfig)
    try:
        print(f"   {scheduler}: creating {nodes:,} nodes and {pods:,} pods", flush=True)
        await install(api)
        await ensure_namespace(api, "ullage-system")
        names = [f"node-{number:04d}" for number in range(nodes)]
        await create_all(api, NODES, [_node(name) for name in names], "")
        await _report(api, names)
        wanted = [a_pod(f"pod-{n:05d}", gpus=1, requests={"cpu": "1"}, schedulerName=scheduler) for n in range(pods)]
        await create_all(api, PODS, wanted, "default")
        moments = await _bind_moments(api, pods, lambda: started(plane))
    finally:
        await api.close()
        await asyncio.to_thread(plane.__exit__, None, None, None)
    return (len(moments) - 1) / (moments[-1] - moments[0])


async def _bind_moments(api: KubeApi, pods: int, start: Callable[[], Any]) -> list[float]:
    """When each pod was seen bound."""
    moments: dict[str, float] = {}
    done = asyncio.Event()

    def hear(event: Event[Any]) -> None:
        if isinstance(event, Appeared | Changed) and event.new[1] and event.new[0] not in moments:
            moments[event.new[0]] = time.monotonic()
            if len(moments) == pods:
                done.set()

    interest = Interest(PODS, lambda pod: (pod.metadata.name, pod.spec.node_name))
    informer = Informer(api, interest, hear, rng=random.Random(0), clock=WallClock())
    watching = asyncio.ensure_future(informer.run())
    await informer.wait_synced()
    with start():
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await done.wait()
        finally:
            watching.cancel()
    return sorted(moments.values())


def _node(name: str) -> dict[str, Any]:
    room = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": "8"}
    return a_node(name, labels={"gpu.scheduling/node-kind": "leased"}, allocatable=room)


async def _report(api: KubeApi, names: list[str]) -> None:
    """Inventories as an agent would publish them. Fresh for ninety seconds, which is enough for a run."""
    waiting = iter(names)

    async def worker() -> None:
        for name in waiting:
            devices = tuple(
                Device(
                    id=g, uuid=f"GPU-{name}-{g}", model="NVIDIA H100 80GB HBM3", memory=80 << 30, island=f"i{g // 4}"
                )
                for g in range(8)
            )
            made = await api.patch(GPU_NODE_STATUSES, name, apply_node(name, "bench"))
            status = node_report(Inventory(node=name, reported_at=WallClock().now(), devices=devices))
            await api.patch(GPU_NODE_STATUSES, name, apply_status(made.metadata, status, "bench"), subresource="status")

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())
