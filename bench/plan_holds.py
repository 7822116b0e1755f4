"""Longest holds of event loops by plans on the large cluster of `bench.scale`: scale-up and draining, core and all.

The cores of a controller on one snapshot, with a Lease for each GPU that is held. A fork of the snapshot is a step of
its own. Before it shared rows a fork took 31 to 51 ms, and the search for demand of 20,000 pods, in one piece, 145 to
222 ms (commit 3c7d2bb).
"""

import asyncio
import math
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from bench.buying import a_pool
from bench.loop_holds import CpuClock, LoopHolds
from bench.record import Figure
from bench.scale_cluster import NOW, a_pod
from ullage.config.settings import Settings
from ullage.decide.draining.core import DrainCore
from ullage.decide.draining.scope import ScopeInputs
from ullage.decide.provisioning.core import ProvisioningCore
from ullage.model.allocation import lease_name
from ullage.model.device import MILLI_GPU
from ullage.model.fact_event import Added, Deleted, ObjectKey
from ullage.model.instance import Instance
from ullage.model.lease import GpuLease, LeaseHold
from ullage.model.pod import Pod
from ullage.model.provisioner import Consolidation, ConsolidationPolicy, Provisioner
from ullage.model.quota import Quota, QuotaLimits
from ullage.model.stepper import Stepper
from ullage.model.units import Instant, Steady
from ullage.runtime import drive, keep_garbage_collection_short
from ullage.state.snapshot import ClusterSnapshot

PLANS = 3
PENDING, ALONE = 20_000, 2_000
"""Pods that wait for nodes; and pods of which each is placed for itself, because their namespace has a quota."""
CANDIDATES = 500
"""Nodes whose pods are moved away in a drain plan, where there are as many."""

T = TypeVar("T")


class Planning:
    """A controller's cores on one snapshot."""

    def __init__(self, snapshot: ClusterSnapshot, holds: LoopHolds) -> None:
        self.snapshot = snapshot
        self.holds = holds
        self.clock = CpuClock(NOW)
        self.settings = Settings()
        self.core = ProvisioningCore(snapshot, self.settings)
        self.drains = DrainCore(self.core.assigner, self.settings.draining)
        self.pool = replace(a_pool(), consolidation=Consolidation(policy=ConsolidationPolicy.DRAIN))
        names = sorted(snapshot.state.nodes)
        self.machines = [Instance(id=name, pool=self.pool.name, since=Instant(1.0), node=name) for name in names]

    async def run(self, kind: str, steps: Stepper[T]) -> T:
        """Drive a plan as its loop does, in a task of its own."""
        self.holds.kind = kind
        try:
            return await asyncio.get_running_loop().create_task(drive(steps, self.clock, budget=math.inf))
        finally:
            self.holds.kind = ""

    async def scale_up(self, kind: str, pods: Sequence[Pod]) -> None:
        for pod in pods:
            self.snapshot.apply(Added(pod.key, pod))
        for _ in range(PLANS):
            facts = self.core.facts([self.pool], self.machines, now=NOW, steady=Steady(0.0))
            found = await self.run(f"scale-up plan, {kind}", self.core.plan(facts, now=NOW))
            if not found.demand.chosen:
                raise RuntimeError("nothing is bought")
        for pod in pods:
            self.snapshot.apply(Deleted(pod.key, pod))

    async def drain(self, candidates: int) -> None:
        scope = ScopeInputs(provisioners=[self.pool], instances=self.machines, listed=[self.pool.provider])
        for _ in range(PLANS):
            await self.run("drain plan, warm-up", self.drains.warm_up())
            kind = f"drain plan, {candidates} nodes are tried"
            found = await self.run(kind, _planned(self.drains, self.pool, scope))
            if not found:
                raise RuntimeError("nothing could be removed")


def _planned(core: DrainCore, pool: Provisioner, inputs: ScopeInputs) -> Stepper[int]:
    """Scope and plan of one drain loop. Returns the number of nodes that could be removed."""
    scope = yield from core.scope_in_steps(inputs, now=NOW)
    decided = yield from core.plan([pool], scope, now=NOW)
    core.soft_taints(frozenset())
    return len(decided.plan.removable)


def planning_holds(snapshot: ClusterSnapshot) -> list[Figure]:
    """Figures of all kinds of plans."""
    holds = LoopHolds()
    _lease(snapshot)

    async def live() -> None:
        asyncio.get_running_loop().set_task_factory(cast(Any, holds))
        planning = Planning(snapshot, holds)
        keep_garbage_collection_short()
        await planning.run("scale-up plan, warm-up", planning.core.assigner.engine.warm_up())
        pods = [a_pod(f"pending-{number}", "", gpus=(1, 2, 4, 8)[number % 4]) for number in range(PENDING)]
        await planning.scale_up(f"{PENDING:,} pending pods", pods)
        quota = Quota(key=ObjectKey("team-0", "q"), uid="q", generation=1, limits=QuotaLimits(gpus=10**6))
        snapshot.apply(Added(quota.key, quota))
        await planning.scale_up(f"{ALONE:,} of them under a quota", pods[:ALONE])
        snapshot.apply(Deleted(quota.key, quota))
        await planning.drain(_empty_some(snapshot))

    asyncio.run(live())
    return holds.figures(promised=True)


def _lease(snapshot: ClusterSnapshot) -> None:
    """A Lease for each GPU that a pod holds, as on leased nodes. Some binds have not been heard of."""
    for pod in list(snapshot.pods.values()):
        for gpu in pod.gpu_ids:
            name = lease_name(pod.node, gpu)
            hold = LeaseHold(uid=pod.uid, milli=MILLI_GPU)
            lease = GpuLease(
                name=name, node=pod.node, device=gpu, holds=(hold,), shared=False, renewed=NOW, resource_version="1"
            )
            snapshot.apply(Added(ObjectKey("", name), lease))


def _empty_some(snapshot: ClusterSnapshot) -> int:
    """Leave one pod with a GPU on each of some nodes, and none on as many others, so that there is a place for it.

    Returns how many nodes that is.
    """
    names = sorted(snapshot.state.nodes)
    candidates = min(CANDIDATES, len(names) // 2)
    for number, name in enumerate(names[: 2 * candidates]):
        for pod in list(snapshot.pods_on(name).values()):
            known = snapshot.state.pods.get(pod.key)
            if known is None or (number % 2 == 0 and pod.gpu_ids == (0,)):
                continue
            snapshot.apply(Deleted(pod.key, known))
            for gpu in pod.gpu_ids:
                lease = snapshot.state.leases[lease_name(name, gpu)]
                snapshot.apply(Deleted(ObjectKey("", lease.name), lease))
    return candidates
