"""From a pod's creation to its bind, one pod after another on 1,000 nodes: ours with its Lease, kube-scheduler without.

Counted from just before the pod is created until a watcher sees it bound. The schedulers take turns on one API server:
ours, the peer, the peer, ours.
"""

import asyncio
import statistics
import time

from bench.record import Figure
from bench.rivals import OURS, PEER, Stage, binds, clear, kube_scheduler, ours, stage
from ullage.deploy.applying import ensure_namespace
from ullage.kube.client.resources import PODS
from ullage.testing.builders import a_pod

NODES_THERE, PODS_EACH = 1_000, 200
PROMISED_MILLISECONDS = 25.0
ORDER = (OURS, PEER, PEER, OURS)
WARM_UP = 5
"""Pods before the counting begins: connections, caches, code that runs for the first time."""
PAUSE_SECONDS = 0.05
PATIENCE_SECONDS = 60.0


def run(scale: float) -> list[Figure]:
    """Medians and tails of both."""
    pods = max(int(PODS_EACH * scale) // 2, 10)
    taken = asyncio.run(_all_turns(int(NODES_THERE * scale), pods))
    middle = {name: statistics.median(times) for name, times in taken.items()}
    tail = {name: statistics.quantiles(times, n=10)[-1] for name, times in taken.items()}
    what, peer = "created to bound, one pod at a time", "kube-scheduler"
    return [
        Figure(f"{what}, p50", "ms", middle[OURS], PROMISED_MILLISECONDS, "promised at most", 1.0),
        Figure(f"{what}, p50", "ms", middle[OURS], middle[PEER], peer),
        Figure(f"{what}, p90", "ms", tail[OURS], tail[PEER], peer),
    ]


async def _all_turns(nodes: int, pods: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {OURS: [], PEER: []}
    async with stage(nodes) as there:
        for number, scheduler in enumerate(ORDER):
            namespace = f"turn-{number}"
            await ensure_namespace(there.api, namespace)
            with (ours if scheduler == OURS else kube_scheduler)(there):
                times = await _one_by_one(there, scheduler, namespace, pods)
            print(f"   {scheduler}: median {statistics.median(times):.1f} ms", flush=True)
            taken[scheduler] += times
            await clear(there, namespace)
    return taken


async def _one_by_one(there: Stage, scheduler: str, namespace: str, pods: int) -> list[float]:
    seen = binds(there.api, namespace)
    times = []
    async with seen.lasting():
        for number in range(WARM_UP + pods):
            name = f"pod-{number:05d}"
            pod = a_pod(name, gpus=1, requests={"cpu": "1"}, schedulerName=scheduler)
            created = time.monotonic()
            await there.api.create(PODS, pod, namespace)
            if not await seen.wait(lambda name=name: name in seen.changes, PATIENCE_SECONDS):  # type: ignore[misc]
                raise RuntimeError(f"{scheduler} does not bind {name}")
            times.append(1000 * (seen.changes[name] - created))
            await asyncio.sleep(PAUSE_SECONDS)
    return times[WARM_UP:]
