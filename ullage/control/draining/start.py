"""Puts draining together: beside a provisioner, on its picture, or alone where nothing is bought."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from ullage.act.drain import Around, DrainHands
from ullage.act.drain_holds import ComingPods
from ullage.clock import Clock
from ullage.control.draining.gauges import PLAN, count, show
from ullage.control.draining.loop import DrainingLoop
from ullage.control.draining.settings import DrainingSettings
from ullage.control.draining.telling import DrainTeller
from ullage.control.draining.witness import Ground
from ullage.control.provisioning.start import ControllerSettings, Host, Provisioning
from ullage.decide.drain.recheck import Recheck
from ullage.errors import Forbidden
from ullage.kube.api import KubeApi
from ullage.kube.read.workload import read_workload
from ullage.kube.resource import Resource
from ullage.kube.resources import DAEMON_SETS, JOBS, REPLICA_SETS, STATEFUL_SETS
from ullage.model.drain_outcome import DrainOutcome, Eviction
from ullage.model.drain_promise import Promise
from ullage.model.event import Event
from ullage.observe.drain_metrics import DrainMetrics
from ullage.observe.events import EventRecorder
from ullage.watch.informer import Interest
from ullage.watch.picture import is_served

_log = structlog.get_logger("draining")

WORKLOADS: Sequence[Resource[Any]] = (REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS)


class Draining:
    """The drain loop of one provisioner's process. `run` runs both until cancelled."""

    def __init__(
        self, provisioning: Provisioning, settings: DrainingSettings, *, metrics: DrainMetrics | None = None
    ) -> None:
        self._provisioning = provisioning
        self._api, self._clock = provisioning.api, provisioning.clock
        self._metrics = metrics
        self._teller: DrainTeller | None = None
        self._models: dict[str, str] = {}
        placements = provisioning.loop.placements
        self.loop = loop = DrainingLoop(
            Ground(placements, provisioning.statuses, provisioning.clouds), self._clock, settings
        )
        witness = loop.witness
        around = Around(
            machine_of=witness.machine_of,
            judge=Recheck(witness.circumstances, witness.unplaced),
            coming=ComingPods(self._api, settings.lease_namespace, witness.waiting, witness.devices).first,
            on_eviction=self._asked,
            on_evicted=witness.evicted,
        )
        loop.hands = DrainHands(self._api, self._clock, settings.pace, around)
        loop.on_outcome = self._ended
        loop.on_begun = self._begun
        if metrics is not None:
            loop.on_planned = partial(metrics.took, PLAN)
        provisioning.join(self)

    @property
    def ready(self) -> bool:
        """Whether decisions are made."""
        return self._provisioning.ready

    async def run(self) -> None:
        """Until cancelled, with the provisioner it stands beside."""
        await self._provisioning.run()

    def show(self) -> None:
        """Bring gauges up to date."""
        if self._metrics is not None:
            show(self._metrics, self.loop.decided, self.loop.ledger.going.values())

    async def interests(self) -> Sequence[Interest[Any, Any]]:
        """Controllers that make pods again, as far as we may see them."""
        seen = [resource for resource in WORKLOADS if await self._may_list(resource)]
        self.loop.workloads.kinds = frozenset(resource.kind for resource in seen)
        return [Interest(resource, partial(read_workload, kind=resource.kind)) for resource in seen]

    def hear(self, event: Event[Any]) -> None:
        """After the picture has changed."""
        self.loop.hear(event)

    async def work(self, events: EventRecorder) -> None:
        """The loop itself, when everything has been heard."""
        nodes, statuses = self._provisioning.loop.placements.state.nodes, self._provisioning.statuses
        self._teller = DrainTeller(events, nodes.get, lambda: statuses.provisioners)
        self.loop.on_provisioner = self._teller.read
        await self.loop.run()

    async def _may_list(self, resource: Resource[Any]) -> bool:
        try:
            return await is_served(self._api, resource)
        except Forbidden as error:
            _log.warning("controllers cannot be listed, and are taken to be there", error=error.message)
            return False

    def _begun(self, promise: Promise) -> None:
        state = self._provisioning.loop.placements.state
        inventory = state.inventories.get(promise.node)
        self._models[promise.node] = inventory.devices[0].model if inventory is not None and inventory.devices else ""
        if self._teller is not None:
            self._teller.begun(promise)

    def _ended(self, outcome: DrainOutcome, seconds: float) -> None:
        model = self._models.pop(outcome.action.node, "")
        if self._metrics is not None:
            count(self._metrics, outcome, seconds, gpu_model=model)
        if self._teller is not None:
            self._teller.ended(outcome)

    def _asked(self, eviction: Eviction) -> None:
        if self._metrics is not None:
            self._metrics.eviction(eviction.result.value)
        if self._teller is not None:
            self._teller.asked(eviction)


def draining_alone(
    api: KubeApi,
    settings: DrainingSettings,
    clock: Clock,
    *,
    seed: int,
    host: Host = Host(),  # noqa: B008 - frozen
    providers: Mapping[str, Mapping[str, str]] | None = None,
) -> Draining:
    """A process that drains and buys nothing. `providers`: their settings, as for a provisioner."""
    controller = ControllerSettings(providers=providers or {})
    return Draining(Provisioning(api, controller, clock, seed=seed, host=replace(host, provisions=False)), settings)
