"""`ullage scheduler`: places every pod that names it, GPU or not, until it is stopped."""

import asyncio
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.errors import UserError

if TYPE_CHECKING:
    from ullage.control.leadership import Leadership
    from ullage.control.scheduling.start import SchedulerSettings
    from ullage.kube.access import Access

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

    settings = SchedulerSettings(profiles=dict.fromkeys(names, policy), lease_namespace=namespace)
    choice = ClusterChoice.of(kubeconfig, context)
    asyncio.run(_until_stopped(choice, settings, leader_election))


async def _until_stopped(choice: ClusterChoice, settings: "SchedulerSettings", elect: bool) -> None:
    from ullage.kube.connect import find_access

    access = find_access(choice.kubeconfig, choice.context)
    await _check(access)
    serving = asyncio.ensure_future(_elected(choice, access, settings) if elect else _serve(access, settings, None))
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


async def _elected(choice: ClusterChoice, access: "Access", settings: "SchedulerSettings") -> None:
    """One term after another: a scheduler that lost its lease stands for election again."""
    import random

    from ullage.clock import WallClock
    from ullage.control.election import Elector, LeaseName
    from ullage.control.leadership import lead
    from ullage.control.renewal import RenewalThread
    from ullage.errors import LeadershipLost
    from ullage.kube.connect import find_access, open_api

    name = LeaseName(settings.lease_namespace, ELECTION, _identity())

    def candidate() -> Elector:
        # Its own access: credentials that renew themselves belong to one loop, and this one runs in another.
        own = find_access(choice.kubeconfig, choice.context)
        return Elector(open_api(own), name, clock=WallClock(), rng=random.Random())

    async def term(leadership: "Leadership") -> None:
        click.echo(f"{name.identity} leads", err=True)
        with _ending_when_lost():
            await _serve(access, settings, leadership)

    async with RenewalThread(candidate) as elections:
        while True:
            try:
                await lead(elections, term)
            except LeadershipLost as lost:
                click.echo(f"{lost}; standing for election again", err=True)


@contextmanager
def _ending_when_lost() -> Iterator[None]:
    """Writes refused at the end of a term end the term, and are no failure."""
    from ullage.errors import LeadershipLost

    try:
        yield
    except* LeadershipLost as lost:
        click.echo(f"{lost.exceptions[0]}; standing for election again", err=True)


async def _serve(access: "Access", settings: "SchedulerSettings", leadership: "Leadership | None") -> None:
    """Schedule over connections of this term's own; with a leadership, writes are refused once it is over."""
    import random

    from ullage.clock import WallClock
    from ullage.control.guard import GuardedTransport
    from ullage.control.scheduling.start import Scheduler
    from ullage.kube.http import HttpTransport
    from ullage.kube.rest import RestApi

    wire = HttpTransport(access.endpoint, access.credentials)
    api = RestApi(wire if leadership is None else GuardedTransport(wire, leadership), rng=random.Random())
    try:
        seed = secrets.randbits(32)
        await Scheduler(api, settings, WallClock(), instance=_identity(), seed=seed).run()
    finally:
        await wire.close()


def _identity() -> str:
    """Another one each time a process starts."""
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"
