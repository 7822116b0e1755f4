"""VM system of a scheduler put together: VmCore on the snapshot's ledger, migration loop, servers, reports.

It waits until the cluster serves VirtualMachine, and then runs for as long as this replica leads.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import structlog

from ullage.clock import Clock
from ullage.config.vms import VmSettings
from ullage.control.vms.callers import TokenCallers
from ullage.control.vms.certificate import PermitCertificate, PermitTls
from ullage.control.vms.changes import VmChanges
from ullage.control.vms.loop import PAUSE, VmLoop
from ullage.control.vms.permits import PermitHandler
from ullage.control.vms.reporter import VmEventSink, VmReporter
from ullage.control.vms.server import PermitServer, StateServer, serving_vms
from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.vms.core import VmCore, VmRules
from ullage.decide.vms.destinations import fits_elsewhere
from ullage.decide.vms.migration import MigrationRules
from ullage.errors import ApiError, UserError
from ullage.kube.client.api import KubeApi
from ullage.model.fact_event import ObjectKey
from ullage.model.vm import GrantMode, NodeLedger, RestartRule
from ullage.model.vm_scoring import VmScoring
from ullage.observe.probes import ListenAddress
from ullage.observe.vm_metrics import VmSystemMetrics
from ullage.state.vm_document import ledger_document

_log = structlog.get_logger("vms")
_TRY_AGAIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VmServing:
    """Sockets of the VM system."""

    permits: ListenAddress
    state: ListenAddress | None
    certificate: PermitCertificate
    insecure: bool = False
    """Agents are answered over plain HTTP and without tokens."""
    seed: int = 0
    """Seed of the times at which the certificate is looked at."""


def vm_rules(settings: VmSettings) -> VmRules:
    """Rules of VmCore."""
    return VmRules(
        grant=GrantMode(settings.grant),
        capacity_factor=settings.capacity_pressure_factor,
        sustained=settings.pressure_sustained,
        silent_after=settings.silent_after,
        migrate=settings.migrate,
        node_need_after=settings.node_need_after,
        migration=MigrationRules(per_node=settings.migrations_per_node, cooldown=settings.migration_cooldown),
    )


def vm_scoring(settings: VmSettings) -> VmScoring:
    """Score of nodes for VM pods."""
    return VmScoring(
        min_usage_score=settings.min_usage_score,
        max_usage_score=settings.max_usage_score,
        score_peak=settings.score_peak,
    )


class VmSystem:
    """VMs of one scheduler. `run` while it leads."""

    def __init__(
        self,
        api: KubeApi,
        engine: PlacementEngine,
        settings: VmSettings,
        clock: Clock,
        metrics: VmSystemMetrics,
        changes: VmChanges,
    ) -> None:
        """`changes`: of the ledger in the engine's snapshot."""
        self._api = api
        self._snapshot = snapshot = engine.snapshot
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._changes = changes
        room = snapshot.vms
        room.ledger.restarted(RestartRule(settings.restart))
        room.scoring = vm_scoring(settings)
        self.core = VmCore(
            room.ledger, vm_rules(settings), lambda pod, _vm, now: fits_elsewhere(engine, pod.key, now=now)
        )
        self.handler = PermitHandler(self.core, api, clock, self._waits)
        self.serving: VmServing | None = None
        """None: no agent is answered, as in simulations without sockets."""
        self.leads: Callable[[], bool] = lambda: True
        """True while this replica may answer."""
        self.addresses: tuple[ListenAddress, ...] = ()
        """Addresses taken, permits first; empty until agents are answered."""

    async def run(self, events: VmEventSink, namespace: str) -> None:
        """Run until cancelled. `namespace` is that of the node configuration."""
        room = self._snapshot.vms
        reporter = VmReporter(events, self._metrics, namespace)
        loop = VmLoop(self.core, self._api, self._clock, self._changes.migrations, reporter)
        reporter.served(room.active)
        while not room.active:
            self._changes.config.clear()
            await self._changes.config.wait(None)
        reporter.served(True)
        async with asyncio.TaskGroup() as group:
            group.create_task(loop.run(), name="VM migrations")
            group.create_task(self._follow_config(reporter), name="VM configuration")
            if self.serving is not None:
                group.create_task(self._serve(self.serving), name="VM servers")

    def configure(self, settings: VmSettings) -> None:
        """Take over settings that can change while it runs."""
        self._settings = settings
        self.core.configure(vm_rules(settings))
        self._changes.note()

    def show(self) -> None:
        """Bring gauges up to date."""
        self._metrics.show([ledger for _, ledger in self._ledgers()], list(self.core.unrelieved.values()))

    def _ledgers(self) -> list[tuple[str, NodeLedger]]:
        """Ledgers of VM nodes."""
        room = self._snapshot.vms
        return [(name, room.ledger.ledger(name)) for name in room.ledger.nodes() if room.is_vm_node(name)]

    async def _follow_config(self, reporter: VmReporter) -> None:
        room = self._snapshot.vms
        while True:
            self._changes.config.clear()
            reporter.config(room.config, room.refusal)
            reporter.too_small(name for name, ledger in self._ledgers() if ledger.too_small)
            await asyncio.sleep(PAUSE)  # ledgers change in bursts
            await self._changes.config.wait(None)

    async def _serve(self, serving: VmServing) -> None:
        """Serve until cancelled. What keeps it from serving is logged, and tried again."""
        while True:
            try:
                await self._serve_once(serving)
            except* (ApiError, UserError, OSError) as failures:
                _log.warning("agents are not answered", why=str(failures.exceptions[0]))
            self.addresses = ()
            await asyncio.sleep(_TRY_AGAIN_SECONDS)

    async def _serve_once(self, serving: VmServing) -> None:
        tls = PermitTls(self._api, serving.certificate, self._clock, serving.seed)
        if not serving.insecure or serving.state is not None:
            await tls.open()
        callers = TokenCallers(
            self._api, self._clock, agent_account=self._settings.agent_account, believed=self._settings.token_cache
        )
        agents = PermitServer(
            self.handler, None if serving.insecure else callers, self._metrics, self._clock, lambda: self.leads()
        )
        async with AsyncExitStack() as open_servers:
            context = None if serving.insecure else tls.context
            taken = [await open_servers.enter_async_context(serving_vms(serving.permits, context, agents.answer))]
            if serving.state is not None:
                state = StateServer(lambda: ledger_document(self._snapshot.vms, self.core.unrelieved), callers)
                shown = serving_vms(serving.state, tls.context, state.answer)
                taken.append(await open_servers.enter_async_context(shown))
            self.addresses = tuple(taken)
            _log.info("agents are answered", addresses=[str(one) for one in taken], insecure=serving.insecure)
            if not serving.insecure or serving.state is not None:
                await tls.run()
            await asyncio.Event().wait()

    def _waits(self, key: ObjectKey) -> bool:
        pod = self._snapshot.state.pods.get(key)
        return pod is not None and not pod.node and not pod.phase.over
