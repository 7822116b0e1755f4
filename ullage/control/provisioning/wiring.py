"""Builds the provisioner: informers, clouds, loop and actuator over one API."""

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ullage.act.events import KubeEventWriter
from ullage.act.pools import PoolActuator
from ullage.clock import Clock
from ullage.cloud.api import CloudProvider
from ullage.cloud.registry import ProviderContext, load_provider
from ullage.config.settings import Settings
from ullage.control.cloud_bounds import CallLimits, bounded
from ullage.control.draining.removal_facts import IncomingPods
from ullage.control.leases.loop import gpu_leases
from ullage.control.provisioning.companions import Companion, Companions
from ullage.control.provisioning.fleet_reporter import FleetReporter
from ullage.control.provisioning.instance_lists import InstanceLists
from ullage.control.provisioning.loop import ProvisioningLoop
from ullage.control.provisioning.statuses import ProvisionerStatuses
from ullage.decide.provisioning.core import ProvisioningCore
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import NODE_PROVISIONERS
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.model.fact_event import FactEvent, ObjectKey
from ullage.observe.events import EventMessage, EventRecorder
from ullage.observe.provisioning_metrics import ProvisioningMetrics
from ullage.state.snapshot import ClusterSnapshot
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced
from ullage.watch.late_kinds import follow_late_kinds
from ullage.watch.sources import sources_served
from ullage.watch.trouble import unheard

CONTROLLER = "ullage.dev/controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerEnvironment:
    """Dependencies from the process a provisioner runs in."""

    instance: str = "controller"
    """Name that tells replicas apart."""
    guard: Callable[[CloudProvider], CloudProvider] = lambda provider: provider
    """Wrapper of every provider. It refuses writes of a replica that no longer leads."""
    providers: Mapping[str, CloudProvider] = field(default_factory=dict)
    """Providers owned by the caller: they are neither run nor closed here."""
    metrics: ProvisioningMetrics | None = None
    provisions: bool = True
    """True if nodes are bought and deleted here; False if only companions use the snapshot."""


class ProvisioningController:
    """One provisioner over one API. `run` goes on until cancelled."""

    def __init__(
        self,
        api: KubeApi,
        settings: Settings,
        clock: Clock,
        *,
        seed: int,
        host: ControllerEnvironment = ControllerEnvironment(),  # noqa: B008 - frozen
    ) -> None:
        self.api = api
        self.clock = clock
        self._settings = settings
        self._companions = Companions()
        self._rng = random.Random(seed)
        self._host = host
        self._ready = asyncio.Event()
        self._followed: list[Informer[Any, Any]] = []
        self._group: asyncio.TaskGroup | None = None
        writer = KubeEventWriter(api, controller=CONTROLLER, instance=host.instance)
        self.events = EventRecorder(writer, clock, instance=host.instance)
        """Event recorder of all loops of this process. It writes while `run` runs."""
        self.clouds = InstanceLists(self._made, clock)
        self.statuses = ProvisionerStatuses(api, clock)
        self.coming = IncomingPods(api, settings.scheduling.lease_namespace, self._pods_called, self._devices)
        actuator = PoolActuator(api, self.clouds.provider, self.coming.first)
        core = ProvisioningCore(ClusterSnapshot(), settings, self._companions.serves)
        reporter = FleetReporter(self.events, core.snapshot.state, host.metrics, self._companions.planned)
        self.loop = ProvisioningLoop(core, self.statuses, self.clouds, actuator, clock, reporter)

    def configure(self, settings: Settings) -> None:
        """Take over settings that can change while it runs."""
        self.loop.configure(settings)
        self._companions.configure(settings)

    def announce(self, message: EventMessage) -> None:
        """Record an Event."""
        self.events.record(message)

    @property
    def unready(self) -> str:
        """Informers that have not synced; empty if none is missing."""
        return unheard(self._followed) if self._followed else "the cluster has not been asked yet what it serves"

    @property
    def ready(self) -> bool:
        """True if all informers have synced, so that decisions are made."""
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        """Wait until `ready`."""
        await self._ready.wait()

    async def run(self) -> None:
        """Run until cancelled. Decisions begin when all informers have synced: the snapshot is incomplete before."""
        informers = self._followed = await self._informers()
        try:
            async with self.events as events, asyncio.TaskGroup() as self._group:
                self._group.create_task(run_all(*informers), name="informers")
                await wait_all_synced(*informers)
                if self._host.provisions:
                    self._group.create_task(self.loop.run(), name="provisioning loop")
                for one in self._companions:
                    self._group.create_task(one.work(events), name=type(one).__name__)
                self._ready.set()
                await self._follow_later(informers)
        finally:
            self.clouds.stop()
            for name, provider in self.clouds.providers.items():
                if name not in self._host.providers:
                    await provider.close()

    async def _follow_later(self, informers: Sequence[Informer[Any, Any]]) -> None:
        """Kinds that were not served at the start may be installed while we run: VirtualMachines, say."""

        def follow(interest: InformerSpec[Any, Any]) -> Coroutine[Any, Any, None]:
            return Informer(self.api, interest, self._observe, rng=self._rng, clock=self.clock).run()

        namespace = self._settings.scheduling.lease_namespace
        await follow_late_kinds(self.api, informers, follow, lease_namespace=namespace)

    def join(self, companion: Companion) -> None:
        """Run another loop beside this one. Call before `run`."""
        self._companions.join(companion)

    async def _informers(self) -> list[Informer[Any, Any]]:
        """Informers of the snapshot and NodeProvisioners, and of companions, whose events only companions get."""
        namespace = self._settings.scheduling.lease_namespace
        served = await sources_served(self.api, lease_namespace=namespace)
        shared: list[InformerSpec[Any, Any]] = [*served, _PROVISIONERS, gpu_leases(namespace)]
        own = [interest for one in self._companions for interest in await one.interests()]
        observing = [(one, self._observe) for one in shared] + [(one, self._companions.observe) for one in own]
        return [Informer(self.api, one, observe, rng=self._rng, clock=self.clock) for one, observe in observing]

    def _observe(self, event: FactEvent[Any]) -> None:
        self.loop.observe(event)
        self._companions.observe(event)

    def _pods_called(self, uids: Collection[str]) -> dict[str, ObjectKey]:
        pods = self.loop.snapshot.state.pods.values()
        return {pod.uid: pod.key for pod in pods if pod.uid in uids}

    def _devices(self, node: str) -> list[int]:
        report = self.loop.snapshot.state.inventories.get(node)
        return [] if report is None else [device.id for device in report.devices]

    def _made(self, name: str) -> CloudProvider:
        """Provider of this name, with its background work started."""
        limits = CallLimits()
        if name in self._host.providers:
            return self._host.guard(bounded(self._host.providers[name], limits))
        settings = self._settings.provisioning.providers.get(name, {})
        provider = bounded(
            load_provider(name, ProviderContext(api=self.api, clock=self.clock, settings=settings)), limits
        )
        if self._group is not None:
            self._group.create_task(provider.run(), name=f"provider {name}")
        return self._host.guard(provider)


def _as_it_is(raw: NodeProvisioner) -> NodeProvisioner:
    """NodeProvisioner unchanged: ProvisionerStatuses needs the whole object to write it back."""
    return raw


_PROVISIONERS = InformerSpec(NODE_PROVISIONERS, _as_it_is)
