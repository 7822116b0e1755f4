"""`ullage scheduler`: places every pod that names it, GPU or not, until it is stopped."""

import asyncio
import secrets
import signal
import socket
from typing import TYPE_CHECKING

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.errors import UserError

if TYPE_CHECKING:
    from ullage.control.leadership import Leadership
    from ullage.control.scheduling.start import SchedulerSettings
    from ullage.kube.access import Access
    from ullage.kube.rest import RestApi

ELECTION = "ullage-scheduler"
POLICY_NAMES = ("fragmentation", "best-fit", "packing", "spread")

EXAMPLES = """\b
Examples:
  ullage scheduler
  ullage scheduler --name gpu-scheduler --name batch-scheduler --policy packing
  ullage scheduler --context staging --no-leader-election
"""


@click.command("scheduler", epilog=EXAMPLES)
@click.option(
    "--name",
    "names",
    multiple=True,
    default=("gpu-scheduler",),
    show_default=True,
    help="Scheduler name pods use; may be repeated.",
)
@click.option(
    "--policy", type=click.Choice(POLICY_NAMES), default="fragmentation", show_default=True, help="How GPUs are packed."
)
@click.option("--namespace", default="ullage-system", show_default=True, help="Where the Leases of GPUs are kept.")
@click.option(
    "--leader-election/--no-leader-election",
    default=True,
    show_default=True,
    help="Wait for the lease of the one active scheduler.",
)
@cluster_options
def command(
    names: tuple[str, ...],
    policy: str,
    namespace: str,
    leader_election: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Watch the cluster and place pods whose spec.schedulerName is one of --name, on exact GPUs where they claim them.

    Needs what `ullage install` brings. Stops cleanly on SIGTERM and Ctrl-C; a restart goes on where it was.
    """
    from ullage.control.scheduling.start import SchedulerSettings

    settings = SchedulerSettings(names=names, policy=policy, lease_namespace=namespace)
    choice = ClusterChoice.of(kubeconfig, context)
    asyncio.run(_until_stopped(choice, settings, leader_election))


async def _until_stopped(choice: ClusterChoice, settings: "SchedulerSettings", elect: bool) -> None:
    from ullage.kube.connect import find_access

    access = find_access(choice.kubeconfig, choice.context)
    await _check(access)
    serving = asyncio.ensure_future(_elected(access, settings) if elect else _serve(access, settings, None))
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        click.echo("stopped", err=True)


async def _check(access: "Access") -> None:
    """Before waiting for anything: can this cluster be served at all?"""
    from ullage.kube.connect import open_api
    from ullage.kube.resources import GPU_CLAIMS, GPU_NODE_STATUSES

    api = open_api(access)
    try:
        served = await api.discover()
    finally:
        await api.close()
    missing = [resource.kind for resource in (GPU_CLAIMS, GPU_NODE_STATUSES) if resource not in served]
    if missing:
        raise UserError(f"the cluster does not serve {' and '.join(missing)}; run `ullage install` first")


async def _elected(access: "Access", settings: "SchedulerSettings") -> None:
    """One term after another: a scheduler that lost its lease stands for election again."""
    import random

    from ullage.clock import WallClock
    from ullage.control.election import Elector, LeaseName
    from ullage.control.leadership import lead
    from ullage.control.renewal import RenewalThread
    from ullage.errors import LeadershipLost
    from ullage.kube.connect import open_api

    name = LeaseName(settings.lease_namespace, ELECTION, _identity())

    def candidate() -> Elector:
        return Elector(open_api(access), name, clock=WallClock(), rng=random.Random())

    async def term(leadership: "Leadership") -> None:
        click.echo(f"{name.identity} leads", err=True)
        await _serve(access, settings, leadership)

    async with RenewalThread(candidate) as elections:
        while True:
            try:
                await lead(elections, term)
            except LeadershipLost as lost:
                click.echo(f"{lost}; standing for election again", err=True)


async def _serve(access: "Access", settings: "SchedulerSettings", leadership: "Leadership | None") -> None:
    from ullage.clock import WallClock
    from ullage.control.scheduling.start import Scheduler

    api = _guarded(access, leadership)
    try:
        seed = secrets.randbits(32)
        await Scheduler(api, settings, WallClock(), instance=_identity(), seed=seed).run()
    finally:
        await api.close()


def _guarded(access: "Access", leadership: "Leadership | None") -> "RestApi":
    """An API that refuses to write once the lease is over."""
    import random

    from ullage.control.guard import GuardedTransport
    from ullage.kube.connect import open_api
    from ullage.kube.http import HttpTransport
    from ullage.kube.rest import RestApi

    if leadership is None:
        return open_api(access)
    return RestApi(
        GuardedTransport(HttpTransport(access.endpoint, access.credentials), leadership), rng=random.Random()
    )


def _identity() -> str:
    """Another one each time a process starts."""
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"
