"""Provisioning of the simulated Karpenter: batches pending pods, packs them, creates NodeClaims, writes Events."""

import asyncio
import random

from ullage.clock import Clock
from ullage.errors import ApiError
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import EVENTS, NODE_CLAIMS
from ullage.model.pod import Pod
from ullage.model.selector import Operator
from ullage.sim.karpenter import objects
from ullage.sim.karpenter.cluster_state import KarpenterClusterState
from ullage.sim.karpenter.objects import SimulatedEvent
from ullage.sim.karpenter.solver import Planned, Solution, solve
from ullage.sim.karpenter.timings import KarpenterTimings

NOMINATED_EVERY, FAILED_EVERY = 120.0, 300.0
"""Seconds in which an Event about one pod is written once."""


class KarpenterEvents:
    """Writer of Karpenter's Events, without repetitions."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._said: dict[tuple[str, str], float] = {}
        self._count = 0

    async def write(self, event: SimulatedEvent, *, every: float = 0.0) -> None:
        """Write the Event, unless one with its reason was written about its object within `every` seconds."""
        now = self._clock.now()
        if every and now - self._said.get((event.uid, event.reason), -every) < every:
            return
        self._said[event.uid, event.reason] = now
        self._count += 1
        body = event.body(f"{event.about.name}.{self._count:x}-{int(now)}", now=now)
        try:
            await self._api.create(EVENTS, body, event.about.namespace or "default")
        except ApiError:
            return  # an Event is never worth stopping for

    async def about_pod(self, pod: Pod, reason: str, note: str, *, every: float = 0.0) -> None:
        await self.write(SimulatedEvent("Pod", pod.key, pod.uid, reason, note), every=every)


class NodeClaimProvisioner:
    """Turns pending pods into NodeClaims. `run` until cancelled."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        cluster: KarpenterClusterState,
        events: KarpenterEvents,
        timings: KarpenterTimings,
        rng: random.Random,
    ) -> None:
        self._api = api
        self._clock = clock
        self._cluster = cluster
        self._events = events
        self._timings = timings
        self._rng = rng
        self._wanted = asyncio.Event()
        cluster.on_provisionable = self._wanted.set

    async def run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._timings.requeue):
                    await self._wanted.wait()
            except TimeoutError:
                if not self._cluster.provisionable():
                    continue
            await self._batch()
            await self._solve()

    async def _batch(self) -> None:
        ends = self._clock.now() + self._timings.batch_max
        while self._clock.now() < ends:
            self._wanted.clear()
            try:
                async with asyncio.timeout(min(self._timings.batch_idle, ends - self._clock.now())):
                    await self._wanted.wait()
            except TimeoutError:
                return

    async def _solve(self) -> None:
        cluster = self._cluster
        found = solve(cluster.provisionable(), cluster.rooms(), cluster.counted_pools(), cluster.types)
        await self._report(found)
        for planned in found.planned:
            await self._create(planned)

    async def _create(self, planned: Planned) -> None:
        name = f"{planned.pool.name}-{self._rng.getrandbits(24):05x}"
        # A key that must exist, and that no pod gave a value, gets a random number.
        exists = (one.key for one in planned.pool.requirements if one.operator is Operator.EXISTS)
        filled = {key: str(self._rng.getrandbits(62)) for key in exists if key not in planned.labels}
        await self._api.create(NODE_CLAIMS, objects.node_claim(name, planned, {**planned.labels, **filled}))
        for pod in planned.pods:
            note = f"Pod should schedule on: nodeclaim/{name}"
            await self._events.about_pod(pod, "Nominated", note)

    async def _report(self, found: Solution) -> None:
        for room, pods in found.on_existing.items():
            for pod in pods:
                note = f"Pod should schedule on: {room}"
                await self._events.about_pod(pod, "Nominated", note, every=NOMINATED_EVERY)
        for pod, error in found.errors:
            note = f"Failed to schedule pod, {error}"
            await self._events.about_pod(pod, "FailedScheduling", note, every=FAILED_EVERY)
