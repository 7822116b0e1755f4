"""`ullage scheduler`: places every pod that names it, GPU or not, until it is stopped."""

import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.cli.running import LISTEN_HELP, api_of_term, check_served, identity, led, listen_address, pages, run_fast
from ullage.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ullage.control.leadership import Leadership
    from ullage.control.scheduling.start import Scheduler, SchedulerSettings
    from ullage.kube.access import Access
    from ullage.observe.metrics import SchedulerMetrics
    from ullage.observe.serve import Address

ELECTION = "ullage-scheduler"
POLICY_NAMES = ("fragmentation", "best-fit", "packing", "spread")

EXAMPLES = """\b
Examples:
  ullage scheduler
  ullage scheduler --profile gpu-scheduler=fragmentation --profile batch-scheduler=packing
  ullage scheduler --settings policy.yaml
  ullage scheduler --context staging --no-leader-election --listen 127.0.0.1:9440
"""


@click.command("scheduler", epilog=EXAMPLES)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="NAME[=POLICY]",
    help=f"Scheduler name pods use, and how its GPUs are packed: {', '.join(POLICY_NAMES)}. May be repeated. Default: "
    "what --settings says, else gpu-scheduler.",
)
@click.option(
    "--namespace", help="Where the Leases of GPUs are kept. Default: what --settings says, else ullage-system."
)
@click.option(
    "--settings",
    "settings_file",
    metavar="FILE",
    help="Settings file; see `ullage config show`. Options given here count first.",
)
@click.option(
    "--leader-election/--no-leader-election",
    default=True,
    show_default=True,
    help="Wait for the lease of the one active scheduler.",
)
@click.option("--listen", metavar="HOST:PORT", help=LISTEN_HELP)
@cluster_options
def command(kubeconfig: str | None, context: str | None, listen: str | None, **options: Any) -> None:
    """Watch the cluster and place pods whose spec.schedulerName names a --profile, on exact GPUs where they claim them.

    Needs what `ullage install` brings. Stops cleanly on SIGTERM and Ctrl-C; a restart goes on where it was.
    """
    choice = ClusterChoice.of(kubeconfig, context)
    run_fast(_scheduling(choice, read_settings(options), options["leader_election"], listen_address(listen)))


def read_settings(options: "Mapping[str, Any]") -> "SchedulerSettings":
    """From the settings file and the options as given, which count first. Raises UserError."""
    from ullage.config.loading import load_settings
    from ullage.config.settings import Settings
    from ullage.control.configured import refuse_chance, scheduler_settings

    file = options["settings_file"]
    settings = Settings() if file is None else load_settings(file)
    refuse_chance(settings, file or "--settings")
    taken = scheduler_settings(settings)
    if options["profiles"]:
        taken = replace(taken, profiles=read_profiles(options["profiles"]))
    return replace(taken, lease_namespace=options["namespace"]) if options["namespace"] else taken


def read_profiles(texts: tuple[str, ...]) -> dict[str, str]:
    """Policies by scheduler name."""
    profiles: dict[str, str] = {}
    for text in texts:
        name, _, policy = text.partition("=")
        policy = policy or POLICY_NAMES[0]
        if not name:
            raise UserError(f"--profile: {text!r} names no scheduler; expected NAME or NAME=POLICY")
        if policy not in POLICY_NAMES:
            raise UserError(
                f"--profile: {text!r}: there is no policy {policy!r}; choose from {', '.join(POLICY_NAMES)}"
            )
        if name in profiles:
            raise UserError(f"--profile: {name} is given twice")
        profiles[name] = policy
    return profiles


@dataclass(slots=True)
class _Process:
    """What outlives a term of leadership."""

    metrics: "SchedulerMetrics"
    scheduler: "Scheduler | None" = field(default=None)

    def refresh(self) -> None:
        from ullage.clock import WallClock
        from ullage.control.scheduling.gauges import show

        if self.scheduler is not None:
            show(self.metrics, self.scheduler.desk, now=WallClock().now())

    def unready(self) -> str:
        """Whoever waits to lead is ready to."""
        return "" if self.scheduler is None or self.scheduler.ready else "the cluster has not been read yet"


async def _scheduling(
    choice: ClusterChoice, settings: "SchedulerSettings", elect: bool, address: "Address | None"
) -> None:
    from prometheus_client import CollectorRegistry

    from ullage.kube.connect import find_access
    from ullage.kube.resources import GPU_CLAIMS, GPU_NODE_STATUSES
    from ullage.observe.metrics import SchedulerMetrics

    access = find_access(choice.kubeconfig, choice.context)
    await check_served(access, GPU_CLAIMS, GPU_NODE_STATUSES)
    process = _Process(SchedulerMetrics(CollectorRegistry()))

    async def term(leadership: "Leadership | None") -> None:
        await _serve(access, settings, process, leadership)

    async with pages(address, process.metrics.registry, unready=process.unready, refresh=process.refresh):
        await (led(choice, settings.lease_namespace, ELECTION, term) if elect else term(None))


async def _serve(
    access: "Access", settings: "SchedulerSettings", process: _Process, leadership: "Leadership | None"
) -> None:
    """Schedule for one term."""
    from ullage.clock import WallClock
    from ullage.control.scheduling.start import Scheduler

    async with api_of_term(access, leadership) as api:
        seed = secrets.randbits(32)
        process.scheduler = Scheduler(
            api, settings, WallClock(), instance=identity(), seed=seed, metrics=process.metrics
        )
        try:
            await process.scheduler.run()
        finally:
            process.scheduler = None
