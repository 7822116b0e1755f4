"""`ullage controller`: keeps pools of GPU nodes at the size their NodeProvisioners want, and drains them.

Until it is stopped.
"""

import asyncio
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.cli.process import (
    LISTEN_HELP,
    api_of_term,
    check_served,
    crash_dump,
    identity,
    led,
    listen_address,
    on_snapshot,
    pages,
    until_stopped,
)
from ullage.cli.setting_options import following_settings, read_options, setting_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ullage.config.settings import Settings
    from ullage.control.crash import CrashDump
    from ullage.control.draining.wiring import DrainController
    from ullage.control.leader.leadership import Leadership
    from ullage.control.provisioning.wiring import ProvisioningController
    from ullage.control.settings_reload import SettingsReloader
    from ullage.kube.auth.access import ClusterAccess
    from ullage.observe.draining_metrics import DrainMetrics
    from ullage.observe.karpenter_metrics import KarpenterMetrics
    from ullage.observe.probes import ListenAddress
    from ullage.observe.provisioning_metrics import ProvisioningMetrics

ELECTION = "ullage-controller"

EXAMPLES = """\b
Examples:
  ullage controller --provider-setting aws.cluster=prod --provider-setting aws.region=eu-west-1
  ullage controller --max-gpus 512 --max-price-per-hour 1500
  ullage controller --context staging --no-leader-election --listen 127.0.0.1:9441
  ullage controller --settings policy.yaml
  ullage controller --drain-unmanaged --scale-down-unneeded-time 20m --max-drain-parallelism 3
"""


@click.command("controller", epilog=EXAMPLES)
@setting_options("provisioning", "draining", "scheduling.lease_namespace", "karpenter")
@click.option(
    "--leader-election/--no-leader-election",
    default=True,
    show_default=True,
    help="Wait for the lease of the one active controller.",
)
@click.option("--listen", metavar="HOST:PORT", help=LISTEN_HELP)
@cluster_options
def command(kubeconfig: str | None, context: str | None, listen: str | None, **options: Any) -> None:
    """Buy GPU nodes for pods that fit nowhere, and give back those that are not needed, as NodeProvisioners say.

    With consolidation policy EmptyOnly, nodes go when they are empty; with Drain, also when their pods have a place
    elsewhere, many at once. Disruption budgets hold, and nothing is drained that would make a new node necessary.

    Needs what `ullage install` brings. Stops cleanly on SIGTERM and Ctrl-C; a restart goes on where it was.
    """
    choice = ClusterChoice.of(kubeconfig, context)
    crash = crash_dump()
    work = _controlling(choice, read_options(options), options, listen_address(listen), crash)
    asyncio.run(until_stopped(work, crash))


@dataclass(slots=True)
class _Process:
    """State that outlives a term of leadership."""

    metrics: "ProvisioningMetrics"
    drain_metrics: "DrainMetrics"
    karpenter_metrics: "KarpenterMetrics"
    following: "SettingsReloader"
    """Settings in force."""
    crash: "CrashDump"
    provisioning: "ProvisioningController | None" = field(default=None)
    draining: "DrainController | None" = field(default=None)
    election: str = ""
    """Problem that keeps it from standing for election; empty if there is none."""

    def refresh(self) -> None:
        from ullage.clock import WallClock
        from ullage.control.provisioning.gauges import show

        if self.draining is not None:
            self.draining.show()
        if self.provisioning is not None and self.provisioning.loop.plan is not None:
            show(self.metrics, self.provisioning.loop.plan, now=WallClock().now())

    def unready(self) -> str:
        """Return the problem that keeps it from being ready; empty if none. A replica that waits to lead is ready."""
        return self.election if self.provisioning is None else self.provisioning.unready

    def elects(self, trouble: str) -> None:
        self.election = trouble

    def stuck(self) -> str:
        """Return the loops that are stuck; empty if none is."""
        running = [one.loop.health for one in (self.provisioning, self.draining) if one is not None]
        return "; ".join(said for health in running if (said := health.stuck()))


async def _controlling(
    choice: ClusterChoice,
    settings: "Settings",
    options: "Mapping[str, Any]",
    address: "ListenAddress | None",
    crash: "CrashDump",
) -> None:
    from prometheus_client import CollectorRegistry

    from ullage.kube.auth.connect import find_access
    from ullage.kube.client.resources import NODE_PROVISIONERS
    from ullage.observe.draining_metrics import DrainMetrics
    from ullage.observe.karpenter_metrics import KarpenterMetrics
    from ullage.observe.provisioning_metrics import ProvisioningMetrics

    access = find_access(choice.kubeconfig, choice.context)
    await check_served(access, NODE_PROVISIONERS)
    registry = CollectorRegistry()
    namespace = settings.scheduling.lease_namespace
    async with following_settings(options, settings, ELECTION, registry) as following:
        metrics = ProvisioningMetrics(registry), DrainMetrics(registry), KarpenterMetrics(registry)
        process = _Process(*metrics, following, crash)

        async def term(leadership: "Leadership | None") -> None:
            await _serve(access, process, leadership)

        async with pages(address, registry, unready=process.unready, refresh=process.refresh, stuck=process.stuck):
            if options["leader_election"]:
                await led(choice, namespace, ELECTION, term, process.elects)
            else:
                await term(None)


async def _serve(access: "ClusterAccess", process: _Process, leadership: "Leadership | None") -> None:
    """Provision and drain for one term. With a leadership, nothing is bought or given back once it is over."""
    from functools import partial

    from ullage.clock import WallClock
    from ullage.control.draining.wiring import DrainController
    from ullage.control.karpenter.wiring import KarpenterController
    from ullage.control.leader.cloud_guard import GuardedProvider
    from ullage.control.provisioning.wiring import ControllerEnvironment, ProvisioningController

    settings = process.following.settings
    host = ControllerEnvironment(instance=identity(), metrics=process.metrics)
    if leadership is not None:
        host = replace(host, guard=partial(GuardedProvider, leadership=leadership))
    async with api_of_term(access, leadership) as api:
        provisioning = ProvisioningController(api, settings, WallClock(), seed=secrets.randbits(32), host=host)
        process.provisioning = process.following.program = provisioning
        process.draining = DrainController(provisioning, settings, metrics=process.drain_metrics)
        if settings.karpenter.enabled:
            KarpenterController(
                provisioning,
                settings.karpenter,
                schedulers=settings.scheduler_names,
                lease_namespace=settings.scheduling.lease_namespace,
                seed=secrets.randbits(32),
                metrics=process.karpenter_metrics,
            )
        try:
            await on_snapshot(
                provisioning.loop.snapshot, process.draining.run(), provisioning.wait_ready, process.crash
            )
        finally:
            process.provisioning = process.draining = process.following.program = None
