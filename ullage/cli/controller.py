"""`ullage controller`: keeps pools of GPU nodes at the size their NodeProvisioners want, until it is stopped."""

import asyncio
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.cli.running import (
    LISTEN_HELP,
    api_of_term,
    check_served,
    identity,
    led,
    listen_address,
    pages,
    until_stopped,
)
from ullage.errors import UserError

if TYPE_CHECKING:
    from ullage.control.leadership import Leadership
    from ullage.control.provisioning.start import ControllerSettings, Provisioning
    from ullage.kube.access import Access
    from ullage.model.provisioner import FleetBudget
    from ullage.observe.provisioning_metrics import ProvisioningMetrics
    from ullage.observe.serve import Address

ELECTION = "ullage-controller"

EXAMPLES = """\b
Examples:
  ullage controller --provider-setting aws.cluster=prod --provider-setting aws.region=eu-west-1
  ullage controller --max-gpus 512 --max-price-per-hour 1500
  ullage controller --context staging --no-leader-election --listen 127.0.0.1:9441
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
    default=("gpu-scheduler",),
    show_default=True,
    help="Name pods use for `ullage scheduler`, as in its --profile. Other schedulers' pods get nodes once those found "
    "them unschedulable. May be repeated.",
)
@click.option("--max-gpus", type=click.IntRange(min=0), help="GPUs all pools together may have. Default: no limit.")
@click.option(
    "--max-price-per-hour",
    metavar="PRICE",
    help="What the nodes of all pools together may cost, by their pricePerHour. Default: no limit.",
)
@click.option("--namespace", default="ullage-system", show_default=True, help="Where the lease of the leader is kept.")
@click.option(
    "--leader-election/--no-leader-election",
    default=True,
    show_default=True,
    help="Wait for the lease of the one active controller.",
)
@click.option("--listen", metavar="HOST:PORT", help=LISTEN_HELP)
@cluster_options
def command(kubeconfig: str | None, context: str | None, listen: str | None, **options: Any) -> None:
    """Buy GPU nodes for pods that fit nowhere, and give empty ones back, as NodeProvisioners say.

    Needs what `ullage install` brings. Stops cleanly on SIGTERM and Ctrl-C; a restart goes on where it was.
    """
    choice = ClusterChoice.of(kubeconfig, context)
    election = options["namespace"] if options["leader_election"] else None
    asyncio.run(until_stopped(_controlling(choice, read_settings(options), election, listen_address(listen))))


def read_settings(options: dict[str, Any]) -> "ControllerSettings":
    """From the options as given. Raises UserError."""
    from ullage.control.provisioning.loop import ProvisioningSettings
    from ullage.control.provisioning.start import ControllerSettings

    budget = read_budget(options["max_gpus"], options["max_price_per_hour"])
    return ControllerSettings(
        provisioning=ProvisioningSettings(budget=budget, schedulers=options["schedulers"]),
        providers=read_provider_settings(options["settings"]),
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
    """What all pools together may have."""
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
    """What outlives a term of leadership."""

    metrics: "ProvisioningMetrics"
    provisioning: "Provisioning | None" = field(default=None)

    def refresh(self) -> None:
        from ullage.clock import WallClock
        from ullage.control.provisioning.gauges import show

        if self.provisioning is not None and self.provisioning.loop.plan is not None:
            show(self.metrics, self.provisioning.loop.plan, now=WallClock().now())

    def unready(self) -> str:
        """Whoever waits to lead is ready to."""
        return "" if self.provisioning is None or self.provisioning.ready else "the cluster has not been read yet"


async def _controlling(
    choice: ClusterChoice, settings: "ControllerSettings", election: str | None, address: "Address | None"
) -> None:
    from prometheus_client import CollectorRegistry

    from ullage.kube.connect import find_access
    from ullage.kube.resources import NODE_PROVISIONERS
    from ullage.observe.provisioning_metrics import ProvisioningMetrics

    access = find_access(choice.kubeconfig, choice.context)
    await check_served(access, NODE_PROVISIONERS)
    process = _Process(ProvisioningMetrics(CollectorRegistry()))

    async def term(leadership: "Leadership | None") -> None:
        await _serve(access, settings, process, leadership)

    async with pages(address, process.metrics.registry, unready=process.unready, refresh=process.refresh):
        await (term(None) if election is None else led(choice, election, ELECTION, term))


async def _serve(
    access: "Access", settings: "ControllerSettings", process: _Process, leadership: "Leadership | None"
) -> None:
    """Provision for one term. With a leadership, nothing is bought or given back once it is over."""
    from functools import partial

    from ullage.clock import WallClock
    from ullage.control.cloud_guard import GuardedProvider
    from ullage.control.provisioning.start import Host, Provisioning

    host = Host(instance=identity(), metrics=process.metrics)
    if leadership is not None:
        host = replace(host, guard=partial(GuardedProvider, leadership=leadership))
    async with api_of_term(access, leadership) as api:
        process.provisioning = Provisioning(api, settings, WallClock(), seed=secrets.randbits(32), host=host)
        try:
            await process.provisioning.run()
        finally:
            process.provisioning = None
