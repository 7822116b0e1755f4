"""Wiring of draining: beside a provisioner, on its snapshot, or alone, where nothing is bought."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from ullage.act.node_removal import DrainPace, NodeRemover
from ullage.act.vm_moves import VmMovePace
from ullage.clock import Clock
from ullage.config.settings import Settings
from ullage.control.draining.loop import DrainLoop
from ullage.control.draining.removal import NodeRemoval
from ullage.control.draining.removal_facts import FleetSources, RemovalFactsReader
from ullage.control.draining.reporter import DrainReporter
from ullage.control.provisioning.wiring import ControllerEnvironment, ProvisioningController
from ullage.decide.draining.core import DrainCore
from ullage.decide.draining.inputs import NodeListFilter
from ullage.errors import Forbidden
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import DAEMON_SETS, JOBS, REPLICA_SETS, STATEFUL_SETS
from ullage.kube.read.workload import read_workload
from ullage.model.fact_event import FactEvent
from ullage.model.pod import Pod
from ullage.observe.draining_metrics import DrainMetrics
from ullage.observe.events import EventRecorder
from ullage.watch.informer import InformerSpec
from ullage.watch.sources import is_served

_log = structlog.get_logger("draining")

WORKLOADS: Sequence[Resource[Any]] = (REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS)


class DrainController:
    """Drain loop in a provisioner's process. `run` runs both until cancelled."""

    def __init__(
        self,
        provisioning: ProvisioningController,
        settings: Settings,
        *,
        metrics: DrainMetrics | None = None,
        node_filters: Sequence[NodeListFilter] = (),
    ) -> None:
        """`node_filters`: filters of candidates and destinations beside the labels of the settings."""
        self.metrics = metrics
        self._provisioning = provisioning
        self._api = api = provisioning.api
        clock, snapshot, statuses = provisioning.clock, provisioning.loop.snapshot, provisioning.statuses
        fleet = FleetSources(snapshot, statuses, provisioning.clouds)
        assigner = provisioning.loop.core.assigner
        self.core = core = DrainCore(assigner, settings.draining, node_filters, settings.vms)
        self.reporter = DrainReporter(provisioning.events, snapshot.state, lambda: statuses.provisioners, metrics)
        pace = DrainPace.of(settings.draining)
        remover = NodeRemover(api, clock, pace.evictions, VmMovePace.of(settings.draining, settings.vms))
        facts = RemovalFactsReader(api, provisioning.coming, core, fleet.machine_of, clock)
        removal = NodeRemoval(core, facts, remover, self.reporter, clock, pace)
        self.loop = DrainLoop(core, fleet, removal, self.reporter, clock, settings.draining)
        provisioning.join(self)

    def configure(self, settings: Settings) -> None:
        """Take over settings that can change while it runs."""
        self.loop.configure(settings.draining, settings.vms)

    @property
    def ready(self) -> bool:
        """True once decisions are made."""
        return self._provisioning.ready

    async def run(self) -> None:
        """Run with the provisioner until cancelled."""
        await self._provisioning.run()

    def show(self) -> None:
        """Update the gauges."""
        self.reporter.show(self.core.decided, self.core.tracker.going.values())

    async def interests(self) -> Sequence[InformerSpec[Any, Any]]:
        """Informers of workloads, for the kinds that this process may list."""
        seen = [resource for resource in WORKLOADS if await self._may_list(resource)]
        self.core.workloads.kinds = frozenset(resource.kind for resource in seen)
        return [InformerSpec(resource, partial(read_workload, kind=resource.kind)) for resource in seen]

    def observe(self, event: FactEvent[Any]) -> None:
        """Pass one event to the loop, after the snapshot has changed."""
        self.loop.observe(event)

    def serves(self, pod: Pod) -> bool:  # noqa: ARG002 - it buys no nodes
        """False: drains buy no nodes."""
        return False

    def planned(self) -> None:
        """Change nothing: drains do not go by plans."""

    async def work(self, events: EventRecorder) -> None:  # noqa: ARG002 - the reporter has it
        """Run the drain loop, once all informers have synced."""
        await self.loop.run()

    async def _may_list(self, resource: Resource[Any]) -> bool:
        try:
            return await is_served(self._api, resource)
        except Forbidden as error:
            _log.warning("controllers cannot be listed, and are taken to be there", error=error.message)
            return False


def draining_alone(
    api: KubeApi,
    settings: Settings,
    clock: Clock,
    *,
    seed: int,
    host: ControllerEnvironment = ControllerEnvironment(),  # noqa: B008 - frozen
) -> DrainController:
    """Build a controller that drains and buys nothing."""
    provisioning = ProvisioningController(api, settings, clock, seed=seed, host=replace(host, provisions=False))
    return DrainController(provisioning, settings)
