"""Simulated kube-scheduler: binds pods of `default-scheduler` by count, and marks those that fit nowhere.

Filters are those of the scheduling rules, without GPU devices: a device plugin would choose them. A pod that fits
nowhere preempts pods of lower priority, and the node is nominated to it.
"""

import asyncio
import random
from contextlib import suppress
from typing import Any

from ullage.act.pod_status import PodConditionWriter
from ullage.clock import Clock
from ullage.decide.placement.filters.table import FilterTable
from ullage.decide.scheduling.assignment import queue_order, waits
from ullage.errors import ApiError
from ullage.kube.client.api import Binding, Deletion, KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import EVENTS, PODS
from ullage.model.fact_event import FactEvent, Synced
from ullage.model.intents import MarkUnschedulable
from ullage.model.pod import Pod
from ullage.model.refusal import PodScheduledReason, SchedulingFailure
from ullage.sim.karpenter.preemption import choose_victims, fitting_nodes
from ullage.sim.karpenter.scheduler_backoff import SchedulerBackoff
from ullage.sim.karpenter.scheduler_words import emptiest, no_node_takes_it, scheduler_event
from ullage.state.snapshot import ClusterSnapshot
from ullage.watch.informer import Informer, run_all, wait_all_synced
from ullage.watch.sources import sources_served

NAME = "default-scheduler"
DECISION_SECONDS = 0.005


class SimulatedKubeScheduler:
    """Simulated kube-scheduler of one API server. `run` until cancelled."""

    def __init__(
        self, api: KubeApi, clock: Clock, *, seed: int, backs_off: bool = False, announces: bool = False
    ) -> None:
        """`backs_off`: with kube-scheduler's pauses. Without them, a rival is quicker than any real one.

        `announces`: for onlookers, with kube-scheduler's Events, and the emptiest node instead of the first by name.
        """
        self._api = api
        self._clock = clock
        self._rng = random.Random(seed)
        self._snapshot = ClusterSnapshot()
        self._fit = FilterTable(self._snapshot)
        self._refuser = PodConditionWriter(api, clock)
        self._backoff = SchedulerBackoff(self._snapshot) if backs_off else None
        self._announces = announces
        self._changed = asyncio.Event()
        self._events = 0
        self._said: dict[str, str] = {}
        """Last words about a pod without a node, by its uid."""

    async def run(self) -> None:
        """Run until cancelled."""
        sources = await sources_served(self._api)
        informers = [Informer(self._api, one, self._observe, rng=self._rng, clock=self._clock) for one in sources]
        async with asyncio.TaskGroup() as group:
            group.create_task(run_all(*informers), name="kube-scheduler informers")
            await wait_all_synced(*informers)
            while True:
                self._changed.clear()
                await self._wait(await self._schedule())

    def _observe(self, event: FactEvent[Any]) -> None:
        self._snapshot.apply(event)
        if not isinstance(event, Synced):
            self._changed.set()

    async def _wait(self, until: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(None if until is None else max(0.0, until - self._clock.now())):
                await self._changed.wait()

    async def _schedule(self) -> float | None:
        """Try every waiting pod. Returns the instant at which the first pause is over; None if there is none."""
        pods, pauses = self._snapshot.state.pods.values(), list[float]()
        mine = [pod for pod in pods if pod.scheduler == NAME and waits(pod) and not pod.gated]
        for pod in sorted(mine, key=queue_order):
            until = 0.0 if self._backoff is None else self._backoff.until(pod)
            if until > self._clock.now():
                pauses.append(until)
            elif pod.key not in self._snapshot.pods:
                await asyncio.sleep(DECISION_SECONDS)
                await self._decide(pod)
        return min(pauses, default=None)

    async def _decide(self, pod: Pod) -> None:
        fitting = fitting_nodes(self._fit, self._snapshot, pod)
        if not fitting:
            if self._backoff is not None:
                self._backoff.refused(pod, self._clock.now())
            await self._refuse(pod)
            return
        node = pod.nominated if pod.nominated in fitting else self._chosen(fitting)
        self._snapshot.assume(pod, node)
        try:
            await self._api.bind(pod.key.name, pod.key.namespace, Binding(node, uid=pod.uid))
        except ApiError:
            self._snapshot.forget(pod.key)
            return
        self._said.pop(pod.uid, None)
        await self._announce(pod, "Scheduled", f"Successfully assigned {pod.key} to {node}")

    def _chosen(self, fitting: list[str]) -> str:
        return emptiest(self._snapshot, fitting) if self._announces else fitting[0]

    async def _refuse(self, pod: Pod) -> None:
        """Mark the pod unschedulable, and evict pods of lower priority where that makes room."""
        if pod.nominated in self._snapshot.columns.rows:
            return  # its victims are leaving
        chosen = choose_victims(self._fit, self._snapshot, pod)
        if chosen is None and pod.unplaced == PodScheduledReason.UNSCHEDULABLE and not self._announces:
            return
        message = f"0/{len(self._snapshot.columns.rows)} nodes are available"
        if self._announces:
            message = no_node_takes_it(self._fit, self._snapshot, pod)
            if chosen is None and message == self._said.get(pod.uid):
                return
            self._said[pod.uid] = message
        why = SchedulingFailure(word="Unschedulable", message=message)
        nominated = None if chosen is None else chosen[0]
        await self._refuser.perform(MarkUnschedulable(pod=pod.key, uid=pod.uid, why=why, nominated=nominated))
        await self._announce(pod, "FailedScheduling", message)
        for victim in () if chosen is None else chosen[1]:
            await self._evict(victim, pod)

    async def _evict(self, victim: Pod, by: Pod) -> None:
        body = self._event(victim, "Preempted", f"Preempted by pod {by.uid} on {victim.node}")
        try:
            await self._api.create(EVENTS, body, victim.key.namespace)
            await self._api.delete(PODS, victim.key.name, victim.key.namespace, how=Deletion(uid=victim.uid))
        except ApiError:
            return  # it is gone

    async def _announce(self, pod: Pod, reason: str, note: str) -> None:
        if self._announces:
            with suppress(ApiError):
                await self._api.create(EVENTS, self._event(pod, reason, note), pod.key.namespace)

    def _event(self, pod: Pod, reason: str, note: str) -> JsonObject:
        self._events += 1
        return scheduler_event(NAME, pod, reason, note, number=self._events, now=self._clock.now())
