"""How many nodes a mixed load takes: 4,000 pods of 1, 2, 4 and 8 GPUs on 1,000 nodes of eight.

Ours, kube-scheduler with its defaults and kube-scheduler told to pack GPUs get the same pods, created beforehand, on
the same API server one after another. What counts is read back from the API server when nothing more is bound.
"""

import asyncio
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.population import GPUS_PER_NODE, create_all
from bench.record import Figure
from bench.rivals import OURS, PACKING_PEER, PEER, Stage, binds, clear, kube_scheduler, ours, stage
from ullage.deploy.applying import ensure_namespace
from ullage.kube.client.resources import PODS
from ullage.testing.builders import GPU, a_pod

NODES_THERE, PODS_THERE = 1_000, 4_000
SIZES, WEIGHTS, SEED = (1, 2, 4, 8), (70, 15, 10, 5), 7
QUIET_SECONDS = 20.0
"""When nothing was bound for so long, nothing will be."""

_PACKING = {
    "type": "MostAllocated",
    "resources": [{"name": GPU, "weight": 10}, {"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
}
PROFILES = (
    {"schedulerName": PEER},
    {
        "schedulerName": PACKING_PEER,
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "NodeResourcesFitArgs",
                    "scoringStrategy": _PACKING,
                },
            }
        ],
    },
)


@dataclass(frozen=True, slots=True)
class Packed:
    """What became of the load."""

    bound: int
    nodes: int


def run(scale: float) -> list[Figure]:
    """All three; ours has to bind every pod, on no more nodes than their GPUs fill."""
    pods = int(PODS_THERE * scale)
    sizes = random.Random(SEED).choices(SIZES, weights=WEIGHTS, k=pods)
    fewest = math.ceil(sum(sizes) / GPUS_PER_NODE)
    found = asyncio.run(_all_turns(int(NODES_THERE * scale), sizes))
    mine = found[OURS]
    figures = [
        Figure("mixed pods bound", "pods", mine.bound, pods, "there are", 1.0, more_is_better=True),
        Figure("nodes used by the mixed load", "nodes", mine.nodes, fewest, "promised at most", 1.0),
    ]
    for name, words in ((PEER, "kube-scheduler"), (PACKING_PEER, "kube-scheduler, MostAllocated")):
        peer = found[name]
        figures += [
            Figure("mixed pods bound", "pods", mine.bound, peer.bound, words, more_is_better=True),
            Figure("nodes used by the mixed load", "nodes", mine.nodes, peer.nodes, words),
        ]
    return figures


async def _all_turns(nodes: int, sizes: Sequence[int]) -> dict[str, Packed]:
    found = {}
    async with stage(nodes, PROFILES) as there:
        for scheduler in (OURS, PEER, PACKING_PEER):
            await ensure_namespace(there.api, scheduler)
            pods = [
                a_pod(f"pod-{n:05d}", gpus=size, requests={"cpu": "1", "memory": "4Gi"}, schedulerName=scheduler)
                for n, size in enumerate(sizes)
            ]
            await create_all(there.api, PODS, pods, scheduler)
            found[scheduler] = one = await _pack(there, scheduler, len(sizes))
            print(f"   {scheduler}: {one.bound:,} of {len(sizes):,} pods on {one.nodes:,} nodes", flush=True)
            await clear(there, scheduler)
    return found


async def _pack(there: Stage, scheduler: str, pods: int) -> Packed:
    seen = binds(there.api, scheduler)
    with (ours if scheduler == OURS else kube_scheduler)(there):
        async with seen.lasting():
            await seen.wait(lambda: len(seen.changes) == pods, QUIET_SECONDS)
    bound = [pod for pod in (await there.api.list(PODS, scheduler)).items if pod.spec.node_name]
    used: Counter[str] = Counter()
    for pod in bound:
        used[pod.spec.node_name] += int(pod.spec.containers[0].resources.requests[GPU])
    if used and max(used.values()) > GPUS_PER_NODE:
        raise RuntimeError(f"{scheduler} put more than {GPUS_PER_NODE} GPUs' worth of pods on a node")
    return Packed(len(bound), len(used))
