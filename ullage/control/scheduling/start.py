"""Puts a scheduler together: informers, desk, loop, hands, sweeper and claims over one API."""

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from ullage.act.evict import Preempter
from ullage.act.gang import GangPlacer
from ullage.act.leases import LeaseBook
from ullage.act.place import Placer
from ullage.act.refuse import Refuser
from ullage.act.sweep import Broom
from ullage.act.tell import KubeEventWriter
from ullage.clock import Clock
from ullage.control.claims.keeper import ClaimKeeper
from ullage.control.lease_sweeper import LeaseSweeper, gpu_leases
from ullage.control.scheduling.desk import Desk
from ullage.control.scheduling.loop import Hands, Pipeline, SchedulerLoop
from ullage.control.scheduling.telling import Teller
from ullage.decide.score.policies import DEFAULT_POLICY
from ullage.errors import ApiError
from ullage.kube.api import KubeApi
from ullage.model.event import Event
from ullage.observe.events import EventRecorder
from ullage.observe.metrics import SchedulerMetrics
from ullage.state.queue import QueuePace
from ullage.watch.informer import Informer, Interest, run_all, wait_all_synced
from ullage.watch.picture import SOURCES, sources_served

CONTROLLER = "ullage.dev/scheduler"
DEFAULT_NAME = "gpu-scheduler"
LOOK_AGAIN_SECONDS = 60.0
"""How often to look whether a kind that was missing at the start is served by now."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What an operator chooses."""

    profiles: Mapping[str, str] = field(default_factory=lambda: {DEFAULT_NAME: DEFAULT_POLICY})
    """Pods that name one of these schedulers are ours, and are packed by its policy."""
    lease_namespace: str = "ullage-system"
    """Where the Leases of GPUs are: one namespace for all schedulers of a cluster."""
    pipeline: Pipeline = field(default_factory=Pipeline)
    sweep: bool = True
    """Free the Leases of pods that are gone."""
    pace: QueuePace = field(default_factory=QueuePace)
    """How long refused pods wait."""


class Scheduler:
    """One scheduler over one API. `run` until cancelled."""

    def __init__(
        self,
        api: KubeApi,
        settings: SchedulerSettings,
        clock: Clock,
        *,
        instance: str,
        seed: int,
        metrics: SchedulerMetrics | None = None,
    ) -> None:
        self._api = api
        self._settings = settings
        self._clock = clock
        self._instance = instance
        self._rng = random.Random(seed)
        self._ready = asyncio.Event()
        self.desk = Desk(settings.profiles, settings.pace)
        self._metrics = SchedulerMetrics(CollectorRegistry()) if metrics is None else metrics
        broom = Broom(api, settings.lease_namespace)
        self._sweeper = LeaseSweeper(broom, clock, on_freed=lambda freed: self._metrics.swept(freed.why))
        placements, quotas = self.desk.placements, self.desk.quota
        self._claims = ClaimKeeper(api, clock, placements, names=settings.profiles, quotas=quotas)

    @property
    def ready(self) -> bool:
        """Whether everything there was has been heard, so that decisions are made."""
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        """Until it is."""
        await self._ready.wait()

    async def run(self) -> None:
        """Until cancelled. Decisions begin when everything has been heard: not before is the picture whole."""
        writer = KubeEventWriter(self._api, controller=CONTROLLER, instance=self._instance)
        recorder = EventRecorder(writer, self._clock, instance=self._instance, on_fate=self._metrics.event)
        async with recorder as events:
            teller = Teller(events, self._metrics)
            loop = SchedulerLoop(self.desk, self._hands(), teller, self._clock, self._settings.pipeline)
            events.others_are_urgent = lambda: loop.is_busy
            loop.on_refused, loop.on_reserved = self._claims.refused, self._claims.reserved
            informers = await self._informers(loop)
            async with asyncio.TaskGroup() as group:
                group.create_task(run_all(*informers), name="informers")
                await wait_all_synced(*informers)
                group.create_task(loop.run(), name="scheduler loop")
                group.create_task(self._claims.run(), name="claims")
                if self._settings.sweep:
                    group.create_task(self._sweeper.run(), name="lease sweeper")
                group.create_task(self._follow_later(loop, informers), name="kinds that come later")
                self._ready.set()

    def _hands(self) -> Hands:
        book = LeaseBook(self._api, self._settings.lease_namespace, self._clock)
        return Hands(
            placer=Placer(self._api, book),
            gang_placer=GangPlacer(self._api, book),
            preempter=Preempter(self._api, self._clock, scheduler=next(iter(self._settings.profiles))),
            refuser=Refuser(self._api, self._clock),
        )

    async def _informers(self, loop: SchedulerLoop) -> list[Informer[Any, Any]]:
        wanted = [*await sources_served(self._api), gpu_leases(self._settings.lease_namespace)]
        return [self._informer(one, loop) for one in wanted]

    def _informer(self, interest: Interest[Any, Any], loop: SchedulerLoop) -> Informer[Any, Any]:
        def hear(event: Event[Any]) -> None:
            loop.hear(event)
            self._claims.hear(event)
            if self._settings.sweep:
                self._sweeper.hear(event)

        return Informer(self._api, interest, hear, rng=self._rng, clock=self._clock)

    async def _follow_later(self, loop: SchedulerLoop, informers: list[Informer[Any, Any]]) -> None:
        """Kinds that were not served at the start may be installed while we run: PodGroups, say."""
        followed = {informer.source for informer in informers}
        async with asyncio.TaskGroup() as group:
            while any(source.resource.id not in followed for source in SOURCES):
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
                with suppress(ApiError):
                    for interest in await sources_served(self._api):
                        if interest.resource.id not in followed:
                            followed.add(interest.resource.id)
                            group.create_task(self._informer(interest, loop).run(), name=interest.resource.id)
