"""Pods bound per second, one GPU each: ours with a Lease, a bind and an Event per pod, kube-scheduler without Leases.

Both get the same 4,000 pods, created beforehand, on the same 1,000 nodes of the same API server, in turns: ours, the
peer, the peer, ours, so that whatever changes as the run goes on falls on both. Pods are bound from the first bind to
the last, as a watcher of the pods sees them; whoever schedules lets Events wait for binds, so a second figure counts
until every Event is there. The third kind of turn has a GpuClaim for each pod, and lasts until the status of each says
Bound. The fourth makes the three writes and decides nothing: what the API server and etcd leave room for.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from bench.population import create_all
from bench.record import Figure
from bench.rivals import (
    OURS,
    PEER,
    Sightings,
    Stage,
    Start,
    binds,
    clear,
    events_in,
    kube_scheduler,
    ours,
    processor_seconds,
    stage,
    writes_alone,
)
from ullage.deploy.applying import ensure_namespace
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.testing.builders import a_pod
from ullage.testing.controlplane import GoProgram

NODES_THERE, PODS_THERE = 1_000, 4_000
PROMISED = 2.0
PATIENCE_SECONDS = 60.0
LOOK_AGAIN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class PodOrGang:
    """Who schedules, and whether each pod has a claim."""

    scheduler: str
    claims: bool = False

    def start(self, namespace: str) -> Start:
        if self.scheduler == WRITES_ALONE:
            return writes_alone(namespace)
        return ours if self.scheduler == OURS else kube_scheduler


WRITES_ALONE = "writes-alone"
PLAIN, CLAIMED, RIVAL, LIMIT = PodOrGang(OURS), PodOrGang(OURS, claims=True), PodOrGang(PEER), PodOrGang(WRITES_ALONE)
ORDER = (PLAIN, RIVAL, LIMIT, CLAIMED, LIMIT, RIVAL, PLAIN)


@dataclass(frozen=True, slots=True)
class Measured:
    """One turn."""

    binding_seconds: float
    """From the first bind to the last."""
    seconds: float
    """From the first bind until all is written."""
    processor_seconds: Mapping[str, float]
    """Of the scheduler, the API server and etcd."""


def run(scale: float) -> list[Figure]:
    """All turns; the turns of one kind count together."""
    pods = int(PODS_THERE * scale)
    measured = asyncio.run(_all_turns(int(NODES_THERE * scale), pods))

    def rate(turn: PodOrGang, seconds: Callable[[Measured], float] = lambda one: one.seconds) -> float:
        mine = [one for kind, one in measured if kind == turn]
        return pods * len(mine) / sum(map(seconds, mine))

    def bound(turn: PodOrGang) -> float:
        return rate(turn, lambda one: one.binding_seconds)

    def cost(turn: PodOrGang) -> float:
        mine = [one for kind, one in measured if kind == turn]
        return 1000 * sum(sum(one.processor_seconds.values()) for one in mine) / (pods * len(mine))

    peer, name = rate(RIVAL), "kube-scheduler"
    return [
        Figure(
            "one-GPU pods bound per second", "pods/s", bound(PLAIN), bound(RIVAL), name, PROMISED, more_is_better=True
        ),
        Figure("the same until every Event is there", "pods/s", rate(PLAIN), peer, name, more_is_better=True),
        Figure("its three writes alone, nothing decided", "pods/s", rate(LIMIT), peer, name, more_is_better=True),
        Figure("the same with claims and their status", "pods/s", rate(CLAIMED), peer, name, more_is_better=True),
        Figure("processor time per pod, all processes", "ms", cost(PLAIN), cost(RIVAL), name),
    ]


async def _all_turns(nodes: int, pods: int) -> Sequence[tuple[PodOrGang, Measured]]:
    measured = []
    async with stage(nodes) as there:
        for number, turn in enumerate(ORDER):
            namespace = f"turn-{number}"
            await _create(there.api, turn, namespace, pods)
            one = await _measure(there, turn, namespace, pods)
            print(f"   {_told(turn, one, pods)}", flush=True)
            measured.append((turn, one))
            await clear(there, namespace)
    return measured


def _told(turn: PodOrGang, one: Measured, pods: int) -> str:
    who = f"{turn.scheduler} with claims" if turn.claims else turn.scheduler
    shares = ", ".join(f"{name} {1000 * spent / pods:.2f}" for name, spent in one.processor_seconds.items())
    speeds = f"{pods / one.binding_seconds:.1f} pods/s bound, {pods / one.seconds:.1f} with all Events"
    return f"{who}: {speeds}; ms per pod: {shares}"


async def _create(api: KubeApi, turn: PodOrGang, namespace: str, count: int) -> None:
    await ensure_namespace(api, namespace)
    names = [f"pod-{number:05d}" for number in range(count)]
    if turn.claims:
        await create_all(api, GPU_CLAIMS, [_claim(name) for name in names], namespace)
    notes = [{"gpu.scheduling/claim": name} if turn.claims else None for name in names]
    bodies = [
        a_pod(name, gpus=1, requests={"cpu": "1"}, annotations=note, schedulerName=turn.scheduler)
        for name, note in zip(names, notes, strict=True)
    ]
    await create_all(api, PODS, bodies, namespace)


def _claim(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"devices": {"count": 1}}}


async def _measure(there: Stage, turn: PodOrGang, namespace: str, pods: int) -> Measured:
    seen = binds(there.api, namespace)
    recorded = Sightings(there.api, GPU_CLAIMS, namespace, lambda claim: bool(claim.status.phase == "Bound"))
    with turn.start(namespace)(there) as pid:
        programs = {"scheduler": pid, **{p.value: there.plane.pid(p) for p in (GoProgram.ETCD, GoProgram.APISERVER)}}
        async with seen.lasting(), recorded.lasting() if turn.claims else nullcontext():
            await _wait(seen, 1, f"binds by {turn.scheduler}")
            before = processor_seconds(programs)
            await _wait(seen, pods, f"binds by {turn.scheduler}")
            if turn.claims:
                await _wait(recorded, pods, "claims that say Bound")
        end = await _all_told(there.api, namespace, pods)
        after = processor_seconds(programs)
    spent = {who: after[who] - before[who] for who in programs}
    first, last = min(seen.changes.values()), max(seen.changes.values())
    return Measured(last - first, end - first, spent)


async def _wait(seen: Sightings, count: int, what: str) -> None:
    if not await seen.wait(lambda: len(seen.changes) >= count, PATIENCE_SECONDS):
        raise RuntimeError(f"{len(seen.changes)} {what}, and no more for {PATIENCE_SECONDS:.0f} s")


async def _all_told(api: KubeApi, namespace: str, pods: int) -> float:
    """When every Event was there."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (there := await events_in(api, namespace)) < pods:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{there} Events for {pods} pods")
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
    return time.monotonic()
