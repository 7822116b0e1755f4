"""Simulated kube-scheduler: binds pods of `default-scheduler` by count, and marks those that fit nowhere.

Filters are those of the scheduling rules, without GPU devices: a device plugin would choose them. No preemption.
"""

import asyncio
import random
from typing import Any

from ullage.act.refuse import PodConditionWriter
from ullage.clock import Clock
from ullage.decide.placement.filters.codes import FITS
from ullage.decide.placement.filters.table import FilterTable
from ullage.decide.scheduling.assignment import queue_order, waits
from ullage.errors import ApiError
from ullage.kube.client.api import Binding, KubeApi
from ullage.model.fact_event import FactEvent, Synced
from ullage.model.intents import MarkUnschedulable
from ullage.model.pod import Pod
from ullage.model.refusal import PodScheduledReason, SchedulingFailure
from ullage.state.snapshot import ClusterSnapshot
from ullage.watch.informer import Informer, run_all, wait_all_synced
from ullage.watch.sources import sources_served

NAME = "default-scheduler"
DECISION_SECONDS = 0.005


class SimulatedKubeScheduler:
    """Simulated kube-scheduler of one API server. `run` until cancelled."""

    def __init__(self, api: KubeApi, clock: Clock, *, seed: int) -> None:
        self._api = api
        self._clock = clock
        self._rng = random.Random(seed)
        self._placements = ClusterSnapshot()
        self._fit = FilterTable(self._placements)
        self._refuser = PodConditionWriter(api, clock)
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
        sources = await sources_served(self._api)
        informers = [Informer(self._api, one, self._observe, rng=self._rng, clock=self._clock) for one in sources]
        async with asyncio.TaskGroup() as group:
            group.create_task(run_all(*informers), name="kube-scheduler informers")
            await wait_all_synced(*informers)
            while True:
                self._changed.clear()
                await self._schedule()
                await self._changed.wait()

    def _observe(self, event: FactEvent[Any]) -> None:
        self._placements.apply(event)
        if not isinstance(event, Synced):
            self._changed.set()

    async def _schedule(self) -> None:
        pods = self._placements.state.pods.values()
        mine = [pod for pod in pods if pod.scheduler == NAME and waits(pod) and not pod.gated]
        for pod in sorted(mine, key=queue_order):
            if pod.key not in self._placements.pods:
                await asyncio.sleep(DECISION_SECONDS)
                await self._decide(pod)

    async def _decide(self, pod: Pod) -> None:
        codes, columns = self._fit.codes(pod), self._placements.columns
        fitting = sorted(columns.names[row] for row in range(columns.size) if columns.names[row] and codes[row] == FITS)
        if not fitting:
            if pod.unplaced != PodScheduledReason.UNSCHEDULABLE:
                why = SchedulingFailure(word="Unschedulable", message=f"0/{len(columns.rows)} nodes are available")
                await self._refuser.perform(MarkUnschedulable(pod=pod.key, uid=pod.uid, why=why))
            return
        self._placements.place(pod, fitting[0])
        try:
            await self._api.bind(pod.key.name, pod.key.namespace, Binding(fitting[0], uid=pod.uid))
        except ApiError:
            self._placements.remove(pod.key)
