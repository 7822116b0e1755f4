"""What every verb has that runs until it is stopped: signals, one leader at a time, and pages for probes."""

import asyncio
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster import ClusterChoice
from ullage.errors import UserError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from ullage.control.leadership import Leadership
    from ullage.kube.access import Access
    from ullage.kube.api import KubeApi
    from ullage.kube.resource import Resource
    from ullage.observe.serve import Address

LISTEN_HELP = "Serve /metrics, /healthz and /readyz here, such as 0.0.0.0:9440. Default: not at all."


def identity() -> str:
    """Another one each time a process starts."""
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"


def listen_address(text: str | None, option: str = "--listen") -> "Address | None":
    """`HOST:PORT` as an address; a port alone means loopback."""
    from ullage.observe.serve import Address

    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise UserError(f"{option}: {text!r} is not HOST:PORT, such as 0.0.0.0:9440")
    return Address(host.strip("[]") or "127.0.0.1", int(port))


@asynccontextmanager
async def pages(
    address: "Address | None",
    registry: "CollectorRegistry",
    *,
    unready: Callable[[], str],
    refresh: Callable[[], None],
) -> AsyncIterator[None]:
    """Metrics and probes during the block, where an address was given. `unready` says what is still missing."""
    from ullage.observe.serve import Checks, serving

    async with AsyncExitStack() as open_pages:
        if address is not None:
            served = serving(address, registry, Checks(ready={"picture": unready}), before_scrape=refresh)
            try:
                taken = await open_pages.enter_async_context(served)
            except OSError as error:
                raise UserError(f"--listen: cannot listen on {address}: {error.strerror or error}") from error
            click.echo(f"metrics at http://{taken}/metrics", err=True)
        yield


@asynccontextmanager
async def api_of_term(access: "Access", leadership: "Leadership | None") -> "AsyncIterator[KubeApi]":
    """Connections of one term's own; with a leadership, writes are refused once it is over."""
    import random

    from ullage.control.guard import GuardedTransport
    from ullage.kube.http import HttpTransport
    from ullage.kube.rest import RestApi

    wire = HttpTransport(access.endpoint, access.credentials)
    try:
        yield RestApi(wire if leadership is None else GuardedTransport(wire, leadership), rng=random.Random())
    finally:
        await wire.close()


async def check_served(access: "Access", *resources: "Resource[Any]") -> None:
    """Before waiting for anything: can this cluster be served at all?"""
    from ullage.kube.connect import open_api
    from ullage.watch.picture import is_served

    api = open_api(access)
    try:
        missing = [resource.kind for resource in resources if not await is_served(api, resource)]
    finally:
        await api.close()
    if missing:
        raise UserError(f"the cluster does not serve {' and '.join(missing)}; run `ullage install` first")


def run_fast(work: Coroutine[Any, Any, None]) -> None:
    """Run until the work ends or the process is asked to stop, on a loop made for many small calls at once."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(until_stopped(work))


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run until the work ends or somebody asks the process to stop."""
    running = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        click.echo("stopped", err=True)


async def led(
    choice: ClusterChoice, namespace: str, election: str, term: "Callable[[Leadership], Awaitable[None]]"
) -> None:
    """One term after another: whoever lost the lease stands for election again."""
    import random

    from ullage.clock import WallClock
    from ullage.control.election import Elector, LeaseName
    from ullage.control.leadership import lead
    from ullage.control.renewal import RenewalThread
    from ullage.errors import LeadershipLost
    from ullage.kube.connect import find_access, open_api

    name = LeaseName(namespace, election, identity())

    def candidate() -> Elector:
        # Its own access: credentials that renew themselves belong to one loop, and this one runs in another.
        own = find_access(choice.kubeconfig, choice.context)
        return Elector(open_api(own), name, clock=WallClock(), rng=random.Random())

    async def served(leadership: "Leadership") -> None:
        click.echo(f"{name.identity} leads", err=True)
        with _ending_when_lost():
            await term(leadership)

    async with RenewalThread(candidate) as elections:
        while True:
            try:
                await lead(elections, served)
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
