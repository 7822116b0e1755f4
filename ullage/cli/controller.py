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
    identity,
    led,
    listen_address,
    pages,
    until_stopped,
)
from ullage.cli.setting_options import draining_options, is_given, read_draining
from ullage.errors import UserError

if TYPE_CHECKING:
    from ullage.config.karpenter import Karpenter
    from ullage.control.draining.settings import DrainingSettings
    from ullage.control.draining.wiring import DrainController
    from ullage.control.leader.leadership import Leadership
    from ullage.control.provisioning.wiring import ControllerSettings, ProvisioningController
    from ullage.kube.auth.access import ClusterAccess
    from ullage.model.provisioner import FleetBudget
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
@click.option(
    "--provider-setting",
    "settings",
    multiple=True,
    metavar="PROVIDER.KEY=VALUE",
    help="What a cloud provider needs to know, such as aws.cluster=prod. May be repeated.",
)
@click.option(
    "--scheduler-name",
    "schedulers",
    multiple=True,
    help="Name pods use for `ullage scheduler`, as in its --profile. Other schedulers' pods get nodes once those found "
    "them unschedulable. May be repeated. Default: what --settings says, else gpu-scheduler.",
)
@click.option("--max-gpus", type=click.IntRange(min=0), help="GPUs all pools together may have. Default: no limit.")
@click.option(
    "--max-price-per-hour",
    metavar="PRICE",
    help="What the nodes of all pools together may cost, by their pricePerHour. Default: no limit.",
)
@click.option(
    "--settings",
    "settings_file",
    metavar="FILE",
    help="Settings file; see `ullage config show`. Options given here count first.",
)
@draining_options
@click.option(
    "--namespace",
    default="ullage-system",
    show_default=True,
    help="Where the lease of the leader is kept, and where `ullage scheduler` keeps those of GPUs.",
)
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
    settings = read_all(options)
    election = settings.draining.lease_namespace if options["leader_election"] else None
    asyncio.run(until_stopped(_controlling(choice, settings, election, listen_address(listen))))


@dataclass(frozen=True, slots=True)
class _Settings:
    """Settings of all loops of this process."""

    controller: "ControllerSettings"
    draining: "DrainingSettings"
    karpenter: "Karpenter | None" = None
    """None where no settings file switches it on."""


def read_all(options: dict[str, Any]) -> _Settings:
    """Read the options and the settings file; options override the file. Raises UserError."""
    from ullage.config.loading import load_settings
    from ullage.control.configured import draining_settings, provisioning_settings
    from ullage.control.provisioning.wiring import ControllerSettings

    if options["settings_file"] is None:
        return _Settings(read_settings(options, ControllerSettings()), read_draining(options))
    said = load_settings(options["settings_file"])
    if not is_given("namespace"):
        options = {**options, "namespace": said.scheduling.lease_namespace}
    return _Settings(
        read_settings(options, provisioning_settings(said)),
        read_draining(options, draining_settings(said)),
        said.karpenter if said.karpenter.enabled else None,
    )


def read_settings(options: dict[str, Any], chosen: "ControllerSettings") -> "ControllerSettings":
    """Return the chosen settings, overridden by the options given. Raises UserError."""
    given = read_budget(options["max_gpus"], options["max_price_per_hour"])
    usual = chosen.provisioning
    budget = type(given)(
        gpus=usual.budget.gpus if given.gpus is None else given.gpus,
        price=usual.budget.price if given.price is None else given.price,
    )
    providers = {name: dict(values) for name, values in chosen.providers.items()}
    for name, values in read_provider_settings(options["settings"]).items():
        providers.setdefault(name, {}).update(values)
    return replace(
        chosen,
        provisioning=replace(usual, budget=budget, schedulers=tuple(options["schedulers"]) or usual.schedulers),
        providers=providers,
        lease_namespace=options["namespace"],
    )


def read_provider_settings(texts: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Settings by provider and key."""
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        provider, dot, key = path.partition(".")
        if not (equals and dot and provider and key):
            raise UserError(f"--provider-setting: {text!r} is not PROVIDER.KEY=VALUE, such as aws.cluster=prod")
        found.setdefault(provider, {})[key] = value
    return found


def read_budget(gpus: int | None, price: str | None) -> "FleetBudget":
    """Read the limits of all pools together. Raises UserError."""
    from decimal import Decimal, InvalidOperation

    from ullage.model.provisioner import MICROS, FleetBudget

    try:
        micros = None if price is None else int(Decimal(price) * MICROS)
    except (InvalidOperation, ValueError, OverflowError) as error:
        raise UserError(f"--max-price-per-hour: {price!r} is not a price, such as 1500 or 98.32") from error
    if micros is not None and micros < 0:
        raise UserError("--max-price-per-hour: must not be negative")
    return FleetBudget(gpus=gpus, price=micros)


@dataclass(slots=True)
class _Process:
    """State that outlives a term of leadership."""

    metrics: "ProvisioningMetrics"
    drain_metrics: "DrainMetrics"
    karpenter_metrics: "KarpenterMetrics"
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
    choice: ClusterChoice, settings: _Settings, election: str | None, address: "ListenAddress | None"
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
    process = _Process(ProvisioningMetrics(registry), DrainMetrics(registry), KarpenterMetrics(registry))

    async def term(leadership: "Leadership | None") -> None:
        await _serve(access, settings, process, leadership)

    async with pages(address, registry, unready=process.unready, refresh=process.refresh, stuck=process.stuck):
        await (term(None) if election is None else led(choice, election, ELECTION, term, process.elects))


async def _serve(
    access: "ClusterAccess", settings: _Settings, process: _Process, leadership: "Leadership | None"
) -> None:
    """Provision and drain for one term. With a leadership, nothing is bought or given back once it is over."""
    from functools import partial

    from ullage.clock import WallClock
    from ullage.control.draining.wiring import DrainController
    from ullage.control.karpenter.wiring import KarpenterController
    from ullage.control.leader.cloud_guard import GuardedProvider
    from ullage.control.provisioning.wiring import ControllerEnvironment, ProvisioningController

    host = ControllerEnvironment(instance=identity(), metrics=process.metrics)
    if leadership is not None:
        host = replace(host, guard=partial(GuardedProvider, leadership=leadership))
    async with api_of_term(access, leadership) as api:
        provisioning = ProvisioningController(
            api, settings.controller, WallClock(), seed=secrets.randbits(32), host=host
        )
        process.provisioning = provisioning
        process.draining = DrainController(provisioning, settings.draining, metrics=process.drain_metrics)
        if settings.karpenter is not None:
            KarpenterController(
                provisioning,
                settings.karpenter,
                schedulers=settings.controller.provisioning.schedulers,
                lease_namespace=settings.draining.lease_namespace,
                seed=secrets.randbits(32),
                metrics=process.karpenter_metrics,
            )
        try:
            await process.draining.run()
        finally:
            process.provisioning = process.draining = None
