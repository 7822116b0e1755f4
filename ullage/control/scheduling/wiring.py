"""Composition of a scheduler: informers, SchedulerCore, loop, actuators, LeaseGarbageCollector and ClaimController."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any

from prometheus_client import CollectorRegistry

from ullage.act.bind import PodBinder
from ullage.act.change_feed import ChangeFeed
from ullage.act.claim_protection import ClaimProtection
from ullage.act.device_reservations import DeviceReservations
from ullage.act.events import KubeEventWriter
from ullage.act.gang_bind import GangBinder
from ullage.act.lease_release import LeaseReleaser
from ullage.act.lease_restore import LeaseRestorer
from ullage.act.leases import LeaseClient
from ullage.act.pod_status import PodConditionWriter
from ullage.act.preemption import PreemptionActuator
from ullage.act.volumes import VolumeBinder
from ullage.clock import Clock
from ullage.config.settings import Settings
from ullage.control.claims.loop import ClaimController
from ullage.control.clock_skew import ClockSkew
from ullage.control.feed import ClusterFeed
from ullage.control.leases.loop import LeaseGarbageCollector, gpu_leases
from ullage.control.leases.reservations import ReservationKeeping
from ullage.control.leases.restore import LeaseRestoring
from ullage.control.scheduling.loop import SchedulerActuator, SchedulerLoop
from ullage.control.scheduling.reporter import SchedulerReporter
from ullage.control.vms.changes import VmChanges
from ullage.control.vms.wiring import VmSystem
from ullage.decide.scheduling.core import SchedulerCore
from ullage.kube.client.api import KubeApi
from ullage.model.dra import WithheldGpu
from ullage.model.pod import Pod
from ullage.observe.events import EventMessage, EventRecorder
from ullage.observe.scheduler_metrics import SchedulerMetrics
from ullage.observe.traces import PlacementTracer
from ullage.runtime import drive
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced
from ullage.watch.late_kinds import follow_late_kinds
from ullage.watch.sources import sources_served
from ullage.watch.trouble import unheard

CONTROLLER = "ullage.dev/scheduler"


class Scheduler:
    """One scheduler over one API. `run` until cancelled."""

    def __init__(
        self,
        api: KubeApi,
        settings: Settings,
        clock: Clock,
        *,
        instance: str,
        seed: int,
        metrics: SchedulerMetrics | None = None,
    ) -> None:
        self._api = api
        self._settings = settings
        self._profiles = settings.scheduling.policies()
        self._namespace = namespace = settings.scheduling.lease_namespace
        self.tracer: PlacementTracer | None = None
        """Set before `run`, if placements are to be traced."""
        self._loop: SchedulerLoop | None = None
        self._events: EventRecorder | None = None
        self._clock = clock
        self._instance = instance
        self._rng = random.Random(seed)
        self._ready = asyncio.Event()
        self._changes = ChangeFeed()
        self._followed: list[Informer[Any, Any]] = []
        vm_changes = VmChanges()
        self.core = SchedulerCore(self._profiles, settings.scheduling, vms_changed=vm_changes.note)
        self._metrics = SchedulerMetrics(CollectorRegistry()) if metrics is None else metrics
        self.vms = VmSystem(api, self.core.engine, settings.vms, clock, self._metrics.vms, vm_changes)
        releaser = LeaseReleaser(api, namespace)
        self._collector = LeaseGarbageCollector(
            releaser, clock, on_released=lambda released: self._metrics.swept(released.why)
        )
        self._skew = ClockSkew(clock, self._metrics)
        self._restoring = LeaseRestoring(
            LeaseRestorer(api, LeaseClient(api, namespace, clock)),
            clock,
            withheld=self._withheld,
            on_restored=lambda restored: self._metrics.leases_restored.inc(len(restored.devices)),
        )
        self._reserving = ReservationKeeping(
            DeviceReservations(api, namespace),
            clock,
            self._published,
            on_restored=lambda _: self._metrics.reservations_restored.inc(),
        )

    def configure(self, settings: Settings) -> None:
        """Take over settings that can change while it runs."""
        self._settings = settings
        self.vms.configure(settings.vms)
        if self._loop is not None:
            self._loop.configure(settings)
        else:
            self.core.configure(settings.scheduling)

    def announce(self, message: EventMessage) -> None:
        """Record an Event, once this scheduler decides."""
        if self._events is not None and self.ready:
            self._events.record(message)

    @property
    def ready(self) -> bool:
        """True if all sources are synced, so that decisions are made."""
        return self._ready.is_set()

    @property
    def unready(self) -> str:
        """Return the problem that keeps pods from being placed; empty if there is none."""
        if not self._followed:
            return "the cluster has not been asked yet what it serves"
        return unheard(self._followed) or self.core.denials.unready

    async def wait_ready(self) -> None:
        """Wait until `ready`."""
        await self._ready.wait()

    async def run(self, elected: Callable[[], Awaitable[object]] | None = None) -> None:
        """Run until cancelled. Decisions begin when all sources are synced: before that the snapshot is incomplete.

        With `elected`, decisions also wait for it to return: a standby keeps its snapshot current, and takes over at
        once.
        """
        writer = KubeEventWriter(self._api, controller=CONTROLLER, instance=self._instance)
        recorder = EventRecorder(writer, self._clock, instance=self._instance, on_fate=self._metrics.event)
        async with recorder as events:
            self._events = events
            reporter = SchedulerReporter(events, self._metrics, self._clock, self.tracer)
            claims = ClaimController(
                self._api,
                self._clock,
                self.core.snapshot,
                names=self._profiles,
                quotas=self.core.quota,
                on_outcome=reporter.claim_kept,
            )
            loop = SchedulerLoop(
                self.core, self._actuator(claims.protection), reporter, self._clock, self._settings, feedback=claims
            )
            self._loop = loop
            events.others_are_urgent = lambda: loop.is_busy
            feed = self._feed(loop, claims)
            informers = self._followed = await self._informers(feed)
            async with asyncio.TaskGroup() as group:
                group.create_task(run_all(*informers), name="informers")
                await wait_all_synced(*informers)
                await drive(self.core.warm_up(), self._clock, budget=math.inf, slice_time=0.0)
                if elected is not None:
                    await elected()
                group.create_task(loop.run(), name="scheduler loop")
                group.create_task(claims.run(), name="claims")
                if self._settings.scheduling.release_leases:
                    group.create_task(self._collector.run(), name="lease garbage collector")
                    group.create_task(self._restoring.run(), name="lease restorer")
                    group.create_task(self._reserving.run(), name="reservation keeper")
                group.create_task(self.vms.run(events, self._namespace), name="VMs")
                group.create_task(self._follow_later(feed, informers), name="kinds that come later")
                self._ready.set()

    def _withheld(self, pod: Pod) -> tuple[WithheldGpu, ...]:
        snapshot = self.core.snapshot
        return snapshot.device_claims.withheld(pod.gpu_ids, snapshot.state.inventories.get(pod.node))

    def _published(self, node: str, gpu: int) -> WithheldGpu | None:
        snapshot = self.core.snapshot
        found = snapshot.device_claims.withheld((gpu,), snapshot.state.inventories.get(node))
        return found[0] if found else None

    def _actuator(self, protection: ClaimProtection) -> SchedulerActuator:
        book = LeaseClient(self._api, self._namespace, self._clock)
        volumes = VolumeBinder(self._api, self._changes)
        return SchedulerActuator(
            placer=PodBinder(self._api, book, volumes, protection),
            gang_placer=GangBinder(self._api, book, volumes, protection),
            preempter=PreemptionActuator(self._api, self._clock, scheduler=next(iter(self._profiles))),
            refuser=PodConditionWriter(self._api, self._clock),
        )

    async def _informers(self, feed: ClusterFeed) -> list[Informer[Any, Any]]:
        wanted = [
            *await sources_served(self._api, lease_namespace=self._namespace),
            gpu_leases(self._namespace),
        ]
        return [self._informer(one, feed) for one in wanted]

    def _feed(self, loop: SchedulerLoop, claims: ClaimController) -> ClusterFeed:
        """Order of observers: the loop's core applies an event to the snapshot, the others read it there."""
        keeping = (self._collector, self._restoring, self._reserving)
        collecting = keeping if self._settings.scheduling.release_leases else ()
        return ClusterFeed(loop, claims, self._changes, self._skew, *collecting)

    def _informer(self, interest: InformerSpec[Any, Any], feed: ClusterFeed) -> Informer[Any, Any]:
        return Informer(self._api, interest, feed.observe, rng=self._rng, clock=self._clock)

    async def _follow_later(self, feed: ClusterFeed, informers: list[Informer[Any, Any]]) -> None:
        """Kinds that were not served at the start may be installed while we run: PodGroups, say."""
        await follow_late_kinds(
            self._api,
            informers,
            lambda interest: self._informer(interest, feed).run(),
            lease_namespace=self._namespace,
        )
