"""Wiring of draining: beside a provisioner, on its snapshot, or alone, where nothing is bought."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from ullage.act.node_removal import Around, NodeRemover
from ullage.clock import Clock
from ullage.control.draining.gauges import PLAN, count, show
from ullage.control.draining.loop import DrainLoop
from ullage.control.draining.settings import DrainingSettings
from ullage.control.draining.telling import DrainReporter
from ullage.control.draining.witness import Ground
from ullage.control.provisioning.wiring import ControllerEnvironment, ControllerSettings, ProvisioningController
from ullage.decide.draining.recheck import Recheck
from ullage.errors import Forbidden
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import DAEMON_SETS, JOBS, REPLICA_SETS, STATEFUL_SETS
from ullage.kube.read.workload import read_workload
from ullage.model.drain_outcome import DrainOutcome, Eviction
from ullage.model.drain_promise import RemovalPlan
from ullage.model.fact_event import FactEvent
from ullage.observe.draining_metrics import DrainMetrics
from ullage.observe.events import EventRecorder
from ullage.watch.informer import InformerSpec
from ullage.watch.sources import is_served

_log = structlog.get_logger("draining")

WORKLOADS: Sequence[Resource[Any]] = (REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS)


class DrainController:
    """Drain loop in a provisioner's process. `run` runs both until cancelled."""

    def __init__(
        self, provisioning: ProvisioningController, settings: DrainingSettings, *, metrics: DrainMetrics | None = None
    ) -> None:
        self._provisioning = provisioning
        self._api, self._clock = provisioning.api, provisioning.clock
        self._metrics = metrics
        self._teller: DrainReporter | None = None
        self._models: dict[str, str] = {}
        placements = provisioning.loop.placements
        self.loop = loop = DrainLoop(
            Ground(placements, provisioning.statuses, provisioning.clouds), self._clock, settings
        )
        witness = loop.witness
        around = Around(
            machine_of=witness.machine_of,
            judge=Recheck(witness.circumstances, witness.unplaced),
            coming=provisioning.coming.first,
            on_eviction=self._asked,
            on_evicted=witness.evicted,
        )
        loop.hands = NodeRemover(self._api, self._clock, settings.pace, around)
        loop.on_outcome = self._ended
        loop.on_begun = self._begun
        if metrics is not None:
            loop.on_planned = partial(metrics.took, PLAN)
        provisioning.join(self)

    @property
    def ready(self) -> bool:
        """True once decisions are made."""
        return self._provisioning.ready

    async def run(self) -> None:
        """Run with the provisioner until cancelled."""
        await self._provisioning.run()

    def show(self) -> None:
        """Update the gauges."""
        if self._metrics is not None:
            show(self._metrics, self.loop.decided, self.loop.ledger.going.values())

    async def interests(self) -> Sequence[InformerSpec[Any, Any]]:
        """Informers of workloads, for the kinds that this process may list."""
        seen = [resource for resource in WORKLOADS if await self._may_list(resource)]
        self.loop.workloads.kinds = frozenset(resource.kind for resource in seen)
        return [InformerSpec(resource, partial(read_workload, kind=resource.kind)) for resource in seen]

    def hear(self, event: FactEvent[Any]) -> None:
        """Pass one event to the loop, after the snapshot has changed."""
        self.loop.hear(event)

    async def work(self, events: EventRecorder) -> None:
        """Run the drain loop, once all informers have synced."""
        nodes, statuses = self._provisioning.loop.placements.state.nodes, self._provisioning.statuses
        self._teller = DrainReporter(events, nodes.get, lambda: statuses.provisioners)
        self.loop.on_provisioner = self._teller.read
        await self.loop.run()

    async def _may_list(self, resource: Resource[Any]) -> bool:
        try:
            return await is_served(self._api, resource)
        except Forbidden as error:
            _log.warning("controllers cannot be listed, and are taken to be there", error=error.message)
            return False

    def _begun(self, promise: RemovalPlan) -> None:
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
    host: ControllerEnvironment = ControllerEnvironment(),  # noqa: B008 - frozen
    providers: Mapping[str, Mapping[str, str]] | None = None,
) -> DrainController:
    """Build a controller that drains and buys nothing. `providers`: settings by provider, as for a provisioner."""
    controller = ControllerSettings(providers=providers or {}, lease_namespace=settings.lease_namespace)
    return DrainController(
        ProvisioningController(api, controller, clock, seed=seed, host=replace(host, provisions=False)), settings
    )
