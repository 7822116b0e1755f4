"""From a claim pod that needs a new node to its bind, on a real Karpenter: what the hand-over costs.

Each round creates a claim pod and an ordinary GPU pod at once. Both need a new node; Karpenter batches them together.
The cost of the hand-over is the time until the claim pod is bound, less the time until the ordinary pod's node reports
its GPUs and its inventory. The naive way, in rounds of its own, keeps a placeholder on the node until then, deletes it
and lets the waiting pod be scheduled again.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from bench.record import Figure
from ullage.errors import NotFound
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import Deletion
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS, GPU_NODE_STATUSES, NODE_POOLS, PODS
from ullage.testing.builders import a_pod
from ullage.testing.controlplane import ControlPlane
from ullage.testing.karpenter_cluster import (
    NAMESPACE,
    SETTINGS,
    KarpenterCluster,
    claim_pod_manifest,
    karpenter_cluster,
    karpenter_spec,
    kwok_node_pool,
)

ROUNDS = 20
PROMISED_SECONDS = 1.0
POOL_LABEL = "karpenter.sh/nodepool"
OURS_POOL, PLAIN_POOL = "gpu-h100", "plain"
LOOK_EVERY = 0.02
_PROGRAM = Path(sys.executable).with_name("ullage")


def run(scale: float) -> list[Figure]:
    """Medians over all rounds."""
    rounds = max(3, int(ROUNDS * scale))
    with tempfile.TemporaryDirectory() as folder, ControlPlane(karpenter_spec(Path(folder))) as plane:
        ours, naive = asyncio.run(_all(plane, Path(folder), rounds))
    what = f"hand-over of a new node, median of {rounds}"
    worst = statistics.quantiles(ours, n=10)[-1]
    return [
        Figure(what, "s", statistics.median(ours), PROMISED_SECONDS, "promised at most", 1.0),
        Figure(what, "s", statistics.median(ours), statistics.median(naive), "placeholder deleted, scheduled again"),
        Figure("hand-over of a new node, p90", "s", worst, statistics.quantiles(naive, n=10)[-1], "the same"),
    ]


async def _all(plane: ControlPlane, folder: Path, rounds: int) -> tuple[list[float], list[float]]:
    settings = folder / "settings.yaml"
    settings.write_text(yaml.safe_dump(SETTINGS))
    api = connect(plane.kubeconfig)
    try:
        async with karpenter_cluster(api, node_pool=_pool(OURS_POOL), registration_delay="1s") as cluster:
            await api.create(NODE_POOLS, _pool(PLAIN_POOL))
            with _program("scheduler", plane, settings), _program("controller", plane, settings):
                ours = [await _ours(cluster, f"r{number}") for number in range(-1, rounds)][1:]
                naive = [await _naive(cluster, f"n{number}") for number in range(-1, rounds)][1:]
    finally:
        await api.close()
    return ours, naive


async def _ours(cluster: KarpenterCluster, name: str) -> float:
    """Seconds by which the claim pod's bind is later than the ordinary pod's node with its inventory."""
    claim, pod = claim_pod_manifest(name)
    pod["spec"]["nodeSelector"] = {POOL_LABEL: OURS_POOL}
    await cluster.api.create(GPU_CLAIMS, claim, NAMESPACE)
    known = set(cluster.reported)
    began = time.monotonic()
    await asyncio.gather(
        cluster.api.create(PODS, pod, NAMESPACE), cluster.api.create(PODS, _ordinary(f"{name}-plain"), NAMESPACE)
    )
    bound, reported = await asyncio.gather(
        _until(lambda: cluster.node_of(name)), _until(lambda: _reported(cluster, known))
    )
    print(f"   {name}: bound {bound - began:.2f} s, inventory {reported - began:.2f} s", flush=True)
    return bound - reported


async def _naive(cluster: KarpenterCluster, name: str) -> float:
    """The same for a placeholder that is deleted once its node has reported, and a pod that is scheduled again."""
    holder, known = f"{name}-holder", set(cluster.reported)
    await cluster.api.create(PODS, _ordinary(holder), NAMESPACE)
    reported = await _until(lambda: _reported(cluster, known))
    await _until(lambda: cluster.node_of(holder))
    await cluster.api.delete(PODS, holder, NAMESPACE, how=Deletion(grace_seconds=1))
    await _until(lambda: _is_gone(cluster, holder))
    await cluster.api.create(PODS, _ordinary(name), NAMESPACE)
    bound = await _until(lambda: cluster.node_of(name))
    print(f"   {name}: {bound - reported:.2f} s after the inventory", flush=True)
    return bound - reported


def _pool(name: str) -> JsonObject:
    """NodePool of one kind of node, without limits. The plain one has no taint of ours."""
    pool = deepcopy(kwok_node_pool())
    pool["metadata"]["name"] = name
    pool["spec"].pop("limits", None)
    pool["spec"]["disruption"]["consolidateAfter"] = "Never"
    if name == PLAIN_POOL:
        spec = pool["spec"]["template"]["spec"]
        spec.pop("startupTaints")
        spec["requirements"] = [one for one in spec["requirements"] if one["key"] != "gpu.scheduling/request"]
    return pool


def _ordinary(name: str) -> JsonObject:
    """A GPU pod of the default scheduler."""
    return a_pod(
        name,
        gpus=1,
        requests={"cpu": "2", "memory": "4Gi"},
        schedulerName="default-scheduler",
        nodeSelector={POOL_LABEL: PLAIN_POOL},
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
        terminationGracePeriodSeconds=1,
    )


async def _reported(cluster: KarpenterCluster, known: set[str]) -> bool:
    """True if a new node of the plain pool has its GPUs and an inventory."""
    for name in sorted(set(cluster.reported) - known):
        if not name.startswith(f"kwok-{PLAIN_POOL}-"):
            continue
        try:
            if (await cluster.api.get(GPU_NODE_STATUSES, name)).status.devices:
                return True
        except NotFound:
            continue
    return False


async def _is_gone(cluster: KarpenterCluster, name: str) -> bool:
    try:
        await cluster.api.get(PODS, name, NAMESPACE)
    except NotFound:
        return True
    return False


async def _until(holds: Callable[[], Awaitable[Any]]) -> float:
    ends = time.monotonic() + 120.0
    while not await holds():
        if time.monotonic() > ends:
            raise TimeoutError("Karpenter or a scheduler did nothing for two minutes")
        await asyncio.sleep(LOOK_EVERY)
    return time.monotonic()


@contextmanager
def _program(verb: str, plane: ControlPlane, settings: Path) -> Iterator[None]:
    command = (_PROGRAM, verb, "--kubeconfig", plane.kubeconfig, "--settings", settings, "--no-leader-election")
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()
