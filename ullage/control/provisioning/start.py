"""Puts the provisioner together: informers, clouds, loop and hands over one API."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from ullage.act.pool import PoolHands
from ullage.act.tell import KubeEventWriter
from ullage.clock import Clock
from ullage.cloud.api import CloudProvider
from ullage.cloud.loading import Surroundings, load_provider
from ullage.control.provisioning.clouds import Clouds
from ullage.control.provisioning.gauges import count
from ullage.control.provisioning.loop import ProvisioningLoop, ProvisioningSettings
from ullage.control.provisioning.statuses import Statuses
from ullage.control.provisioning.telling import PoolTeller
from ullage.kube.api import KubeApi
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.kube.resources import NODE_PROVISIONERS
from ullage.model.event import Event
from ullage.observe.events import EventRecorder
from ullage.observe.provisioning_metrics import ProvisioningMetrics
from ullage.watch.informer import Informer, Interest, run_all, wait_all_synced
from ullage.watch.picture import sources_served

CONTROLLER = "ullage.dev/controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """What an operator chooses."""

    provisioning: ProvisioningSettings = field(default_factory=ProvisioningSettings)
    providers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings of each provider, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What the process a provisioner runs in has for it."""

    instance: str = "controller"
    """Tells replicas apart."""
    guard: Callable[[CloudProvider], CloudProvider] = lambda provider: provider
    """Put around every provider: it refuses what whoever no longer leads must not do."""
    providers: Mapping[str, CloudProvider] = field(default_factory=dict)
    """Somebody else's: they are neither run nor closed here."""
    metrics: ProvisioningMetrics | None = None
    provisions: bool = True
    """Whether anything is bought or given back here at all, or others only use the picture."""


class Companion(Protocol):
    """Another loop on the same picture, in the same process."""

    async def interests(self) -> Sequence[Interest[Any, Any]]:
        """What it wants to hear of beside that picture."""
        ...

    def hear(self, event: Event[Any]) -> None:
        """One thing that was heard, by anybody."""
        ...

    async def work(self, events: EventRecorder) -> None:
        """Its loop, once everything has been heard, until cancelled."""
        ...


class Provisioning:
    """One provisioner over one API. `run` until cancelled."""

    def __init__(
        self,
        api: KubeApi,
        settings: ControllerSettings,
        clock: Clock,
        *,
        seed: int,
        host: Host = Host(),  # noqa: B008 - frozen
    ) -> None:
        self.api = api
        self.clock = clock
        self._settings = settings
        self._companions: list[Companion] = []
        self._rng = random.Random(seed)
        self._host = host
        self._ready = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self.clouds = Clouds(self._made, clock)
        self.statuses = Statuses(api, clock)
        hands = PoolHands(api, self.clouds.provider)
        self.loop = ProvisioningLoop(self.statuses, self.clouds, hands, clock, settings.provisioning)
        if host.metrics is not None:
            self.loop.on_outcome = partial(count, host.metrics)
            self.loop.on_planned = host.metrics.planned

    @property
    def ready(self) -> bool:
        """Whether everything there was has been heard, so that decisions are made."""
        return self._ready.is_set()

    async def run(self) -> None:
        """Until cancelled. Decisions begin when everything has been heard: not before is the picture whole."""
        informers = await self._informers()
        writer = KubeEventWriter(self.api, controller=CONTROLLER, instance=self._host.instance)
        try:
            async with EventRecorder(writer, self.clock, instance=self._host.instance) as events:
                self.loop.on_step = PoolTeller(events, self.loop.placements.state.nodes.get).stepped
                async with asyncio.TaskGroup() as self._group:
                    self._group.create_task(run_all(*informers), name="informers")
                    await wait_all_synced(*informers)
                    if self._host.provisions:
                        self._group.create_task(self.loop.run(), name="provisioning loop")
                    for one in self._companions:
                        self._group.create_task(one.work(events), name=type(one).__name__)
                    self._ready.set()
        finally:
            for name, provider in self.clouds.providers.items():
                if name not in self._host.providers:
                    await provider.close()

    def join(self, companion: Companion) -> None:
        """Run another loop beside this one. Before `run`."""
        self._companions.append(companion)

    async def _informers(self) -> list[Informer[Any, Any]]:
        """Of the picture and of NodeProvisioners; and of what companions want to hear, which is for them alone."""
        shared: list[Interest[Any, Any]] = [*await sources_served(self.api), _PROVISIONERS]
        own = [interest for one in self._companions for interest in await one.interests()]
        hearing = [(one, self._hear) for one in shared] + [(one, self._hear_beside) for one in own]
        return [Informer(self.api, one, hear, rng=self._rng, clock=self.clock) for one, hear in hearing]

    def _hear(self, event: Event[Any]) -> None:
        self.loop.hear(event)
        self._hear_beside(event)

    def _hear_beside(self, event: Event[Any]) -> None:
        for one in self._companions:
            one.hear(event)

    def _made(self, name: str) -> CloudProvider:
        """A provider, and what has to go on beside its calls."""
        if name in self._host.providers:
            return self._host.guard(self._host.providers[name])
        settings = self._settings.providers.get(name, {})
        provider = load_provider(name, Surroundings(api=self.api, clock=self.clock, settings=settings))
        if self._group is not None:
            self._group.create_task(provider.run(), name=f"provider {name}")
        return self._host.guard(provider)


def _as_it_is(raw: NodeProvisioner) -> NodeProvisioner:
    """Read by who keeps statuses: what is written back must be the whole."""
    return raw


_PROVISIONERS = Interest(NODE_PROVISIONERS, _as_it_is)
