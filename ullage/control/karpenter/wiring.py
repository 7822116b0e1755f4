"""Wire the Karpenter system to the provisioner's snapshot: informers, core, actuator, loop."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import structlog

from ullage.act.leases import LeaseClient
from ullage.act.smart_pods import SmartPodActuator, make_namespace
from ullage.config.karpenter import KarpenterSettings
from ullage.config.settings import Settings
from ullage.control.karpenter.loop import KarpenterLoop
from ullage.control.karpenter.reporter import KarpenterReporter
from ullage.control.leases.loop import gpu_leases
from ullage.control.provisioning.wiring import ProvisioningController
from ullage.decide.karpenter.core import KarpenterCore
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.errors import ApiError
from ullage.kube.client.api import ListSelector
from ullage.kube.client.resources import EVENTS_READ, NODE_CLAIMS, NODE_POOLS, NODES, PODS
from ullage.kube.read.karpenter import (
    read_handover_node,
    read_karpenter_event,
    read_node_claim,
    read_node_pool,
    read_smart_pod,
)
from ullage.model.fact_event import FactEvent
from ullage.model.karpenter import COMPONENT_LABEL, REQUEST_LABEL, SMART_SCHEDULER
from ullage.model.pod import Pod
from ullage.model.units import Seconds
from ullage.observe.events import EventRecorder
from ullage.observe.karpenter_metrics import KarpenterMetrics
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced
from ullage.watch.sources import is_served

_log = structlog.get_logger("karpenter")

CLUSTER_EVENTS = "default"
"""Namespace of Events about objects without a namespace."""
ABSENT_RECHECK = Seconds(30.0)
"""Seconds between two checks for Karpenter in a cluster without it."""


class KarpenterController:
    """Karpenter system of one process. Starts once Karpenter's kinds are served, which may be later."""

    def __init__(
        self,
        provisioning: ProvisioningController,
        settings: KarpenterSettings,
        *,
        schedulers: Sequence[str],
        lease_namespace: str,
        seed: int,
        metrics: KarpenterMetrics | None = None,
    ) -> None:
        self._api, self._clock = provisioning.api, provisioning.clock
        self._settings = settings
        self._lease_namespace = lease_namespace
        self._metrics = metrics
        self._rng = random.Random(seed)
        self._ready = asyncio.Event()
        self.loop = KarpenterLoop(
            KarpenterCore(provisioning.loop.core.assigner, KarpenterPolicy.of(settings)),
            provisioning.loop,
            SmartPodActuator(self._api, LeaseClient(self._api, lease_namespace, self._clock), self._clock),
            KarpenterReporter(provisioning.events, metrics, started=self._clock.now()),
            self._clock,
            schedulers=schedulers,
        )
        provisioning.join(self)

    @property
    def ready(self) -> bool:
        """True if capacity requests are served."""
        return self._ready.is_set()

    async def interests(self) -> Sequence[InformerSpec[Any, Any]]:
        """No informers for the process to wait for: Karpenter may be installed later, or never."""
        return ()

    def configure(self, settings: Settings) -> None:
        """Change nothing: settings of Karpenter need a restart."""

    def observe(self, event: FactEvent[Any]) -> None:
        """Pass an event to the loop. Call after the snapshot has been updated."""
        self.loop.observe(event)

    def serves(self, pod: Pod) -> bool:
        """True if Karpenter serves the pod, so that no NodeProvisioner buys for it."""
        return self.ready and self.loop.serves(pod)

    def planned(self) -> None:
        """Reconcile again: the plan of the NodeProvisioners may leave pods to Karpenter."""
        self.loop.wake()

    async def work(self, events: EventRecorder) -> None:  # noqa: ARG002 - the reporter has it
        """Run the loop. Until Karpenter is installed and all informers have synced, it tells waiting pods only."""
        facts = self.loop.core.facts
        async with asyncio.TaskGroup() as group:
            if not await self._is_installed():
                _log.warning("karpenter is not installed", kinds=f"{NODE_CLAIMS.id}, {NODE_POOLS.id}")
                facts.served = False
                self._show_installed(False)
                group.create_task(self.loop.run(), name="karpenter loop")
                await self._wait_for_karpenter()
            await self._make_namespace()
            informers = [
                Informer(self._api, one, self.loop.observe, rng=self._rng, clock=self._clock) for one in self._sources()
            ]
            group.create_task(run_all(*informers), name="karpenter informers")
            await wait_all_synced(*informers)
            self._ready.set()
            self._show_installed(True)
            if facts.served:
                group.create_task(self.loop.run(), name="karpenter loop")
            else:
                facts.served = True
                self.loop.wake()

    def _sources(self) -> list[InformerSpec[Any, Any]]:
        smart = ListSelector(labels=f"{COMPONENT_LABEL}={SMART_SCHEDULER}")
        about_pods = ListSelector(fields="regarding.kind=Pod")
        about_claims = ListSelector(fields="regarding.kind=NodeClaim")
        return [
            InformerSpec(PODS, read_smart_pod, namespace=self._settings.namespace, selection=smart),
            InformerSpec(NODE_CLAIMS, read_node_claim),
            InformerSpec(NODE_POOLS, read_node_pool),
            InformerSpec(NODES, read_handover_node, selection=ListSelector(labels=REQUEST_LABEL)),
            gpu_leases(self._lease_namespace),
            InformerSpec(EVENTS_READ, read_karpenter_event, namespace=self._settings.namespace, selection=about_pods),
            InformerSpec(EVENTS_READ, read_karpenter_event, namespace=CLUSTER_EVENTS, selection=about_claims),
        ]

    async def _is_installed(self) -> bool:
        """True if the cluster serves Karpenter's kinds. Asks until there is an answer."""
        while True:
            try:
                return await is_served(self._api, NODE_CLAIMS) and await is_served(self._api, NODE_POOLS)
            except ApiError as error:
                _log.warning("karpenter cannot be asked for", error=error.message)
            await asyncio.sleep(ABSENT_RECHECK)

    async def _wait_for_karpenter(self) -> None:
        while True:
            await asyncio.sleep(ABSENT_RECHECK)
            if await self._is_installed():
                return

    def _show_installed(self, installed: bool) -> None:
        if self._metrics is not None:
            self._metrics.installed(installed)

    async def _make_namespace(self) -> None:
        try:
            await make_namespace(self._api, self._settings.namespace)
        except ApiError as error:
            _log.warning("the namespace of smart pods cannot be made", error=error.message)
