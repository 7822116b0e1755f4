"""Puts the provisioner together: informers, clouds, loop and hands over one API."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ullage.act.pool import PoolHands
from ullage.clock import Clock
from ullage.cloud.api import CloudProvider
from ullage.cloud.loading import Surroundings, load_provider
from ullage.control.provisioning.clouds import Clouds
from ullage.control.provisioning.gauges import count
from ullage.control.provisioning.loop import ProvisioningLoop, ProvisioningSettings
from ullage.control.provisioning.statuses import Statuses
from ullage.kube.api import KubeApi
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.kube.resources import NODE_PROVISIONERS
from ullage.observe.provisioning_metrics import ProvisioningMetrics
from ullage.watch.informer import Informer, Interest, run_all, wait_all_synced
from ullage.watch.picture import sources_served


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """What an operator chooses."""

    provisioning: ProvisioningSettings = field(default_factory=ProvisioningSettings)
    providers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings of each provider, by its name."""


class Provisioning:
    """One provisioner over one API. `run` until cancelled."""

    def __init__(
        self,
        api: KubeApi,
        settings: ControllerSettings,
        clock: Clock,
        *,
        seed: int,
        providers: Mapping[str, CloudProvider] | None = None,
        metrics: ProvisioningMetrics | None = None,
    ) -> None:
        self._api = api
        self._settings = settings
        self._clock = clock
        self._rng = random.Random(seed)
        self._given = providers or {}
        """Somebody else's: they are neither run nor closed here."""
        self._ready = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._clouds = Clouds(self._made, clock)
        hands = PoolHands(api, self._clouds.provider)
        self.loop = ProvisioningLoop(Statuses(api, clock), self._clouds, hands, clock, settings.provisioning)
        if metrics is not None:
            self.loop.on_outcome = partial(count, metrics)
            self.loop.on_planned = metrics.planned

    @property
    def ready(self) -> bool:
        """Whether everything there was has been heard, so that decisions are made."""
        return self._ready.is_set()

    async def run(self) -> None:
        """Until cancelled. Decisions begin when everything has been heard: not before is the picture whole."""
        interests: list[Interest[Any, Any]] = [*await sources_served(self._api), _PROVISIONERS]
        informers = [Informer(self._api, one, self.loop.hear, rng=self._rng, clock=self._clock) for one in interests]
        try:
            async with asyncio.TaskGroup() as self._group:
                self._group.create_task(run_all(*informers), name="informers")
                await wait_all_synced(*informers)
                self._group.create_task(self.loop.run(), name="provisioning loop")
                self._ready.set()
        finally:
            for name, provider in self._clouds.providers.items():
                if name not in self._given:
                    await provider.close()

    def _made(self, name: str) -> CloudProvider:
        """A provider, and what has to go on beside its calls."""
        if name in self._given:
            return self._given[name]
        settings = self._settings.providers.get(name, {})
        provider = load_provider(name, Surroundings(api=self._api, clock=self._clock, settings=settings))
        if self._group is not None:
            self._group.create_task(provider.run(), name=f"provider {name}")
        return provider


def _as_it_is(raw: NodeProvisioner) -> NodeProvisioner:
    """Read by who keeps statuses: what is written back must be the whole."""
    return raw


_PROVISIONERS = Interest(NODE_PROVISIONERS, _as_it_is)
