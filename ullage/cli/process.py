"""Shared by verbs that run until stopped: signals, leader election, and the HTTP server for probes."""

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

    from ullage.control.crash import CrashDump
    from ullage.control.leader.leadership import Leadership
    from ullage.kube.auth.access import ClusterAccess
    from ullage.kube.client.api import KubeApi
    from ullage.kube.client.resource import Resource
    from ullage.kube.client.transport import Transport
    from ullage.observe.probes import ListenAddress
    from ullage.state.snapshot import ClusterSnapshot

LISTEN_HELP = "Serve /metrics, /healthz and /readyz here, such as 0.0.0.0:9440. Default: not at all."

_CLOSED_TLS = "Fatal error on SSL protocol"


def identity() -> str:
    """Another one each time a process starts."""
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"


def listen_address(text: str | None, option: str = "--listen") -> "ListenAddress | None":
    """`HOST:PORT` as an address; a port alone means loopback."""
    from ullage.observe.probes import ListenAddress

    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise UserError(f"{option}: {text!r} is not HOST:PORT, such as 0.0.0.0:9440")
    return ListenAddress(host.strip("[]") or "127.0.0.1", int(port))


@asynccontextmanager
async def pages(
    address: "ListenAddress | None",
    registry: "CollectorRegistry",
    *,
    unready: Callable[[], str],
    refresh: Callable[[], None],
    stuck: Callable[[], str] = lambda: "",
) -> AsyncIterator[None]:
    """Metrics and probes during the block, where an address was given. `unready` says what is still missing.

    `stuck` says which loop does not go on: then the process is not alive, and kubelet starts it again.
    """
    from ullage.observe.probes import HealthChecks, serving

    async with AsyncExitStack() as open_pages:
        if address is not None:
            checks = HealthChecks(alive={"loops": stuck}, ready={"picture": unready})
            served = serving(address, registry, checks, before_scrape=refresh)
            try:
                taken = await open_pages.enter_async_context(served)
            except OSError as error:
                raise UserError(f"--listen: cannot listen on {address}: {error.strerror or error}") from error
            click.echo(f"metrics at http://{taken}/metrics", err=True)
        yield


def reporting_rights(transport: "Transport") -> "Transport":
    """The transport of a component: a right that its role lacks is logged once, and when it is there again."""
    import structlog

    from ullage.kube.client.rights import RightsTransport

    log = structlog.get_logger("rights")
    return RightsTransport(
        transport,
        lambda right, said: log.error("right missing", right=right, error=said, next="ullage check"),
        lambda right: log.info("right there again", right=right),
    )


@asynccontextmanager
async def api_of_term(access: "ClusterAccess", leadership: "Leadership | None") -> "AsyncIterator[KubeApi]":
    """Connections of one term's own; with a leadership, writes are refused once it is over."""
    import random

    from ullage.control.leader.guard import GuardedTransport
    from ullage.kube.client.rest import RestApi
    from ullage.kube.http.http import HttpTransport

    wire = reporting_rights(HttpTransport(access.endpoint, access.credentials))
    try:
        yield RestApi(wire if leadership is None else GuardedTransport(wire, leadership), rng=random.Random())
    finally:
        await wire.close()


async def check_served(access: "ClusterAccess", *resources: "Resource[Any]") -> None:
    """Check before the start that this cluster can be served at all. Raises UserError."""
    from ullage.kube.auth.connect import open_api
    from ullage.watch.sources import is_served

    api = open_api(access)
    try:
        missing = [resource.kind for resource in resources if not await is_served(api, resource)]
    finally:
        await api.close()
    if missing:
        raise UserError(f"the cluster does not serve {' and '.join(missing)}; run `ullage install --apply` first")


def run_fast(work: Coroutine[Any, Any, None], crash: "CrashDump | None" = None) -> None:
    """Run until the work ends or the process is asked to stop, on a loop made for many small calls at once."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(until_stopped(work, crash))


async def until_stopped(work: Coroutine[Any, Any, None], crash: "CrashDump | None" = None) -> None:
    """Run until the work ends or the process gets a stop signal. A broken invariant ends it with a dump (exit 70)."""
    from ullage.control.crash import broken_invariant

    running = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_without_closed_connections)
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        click.echo("stopped", err=True)
    except BaseException as error:
        if broken_invariant(error) is None:
            raise
        raise click.exceptions.Exit((crash or crash_dump()).write(error)) from error


def _without_closed_connections(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Leave out what uvloop says of bytes that arrive on a TLS connection that we have closed already."""
    error = context.get("exception")
    if context.get("message") == _CLOSED_TLS and isinstance(error, RuntimeError) and "is closed" in str(error):
        return
    loop.default_exception_handler(context)


def crash_dump() -> "CrashDump":
    """Dump named after the verb that runs."""
    from ullage.control.crash import CrashDump

    context = click.get_current_context(silent=True)
    return CrashDump("process" if context is None else context.info_name or "process")


async def on_snapshot(
    snapshot: "ClusterSnapshot",
    work: Coroutine[Any, Any, None],
    filled: Callable[[], Awaitable[None]],
    crash: "CrashDump",
) -> None:
    """Run work that decides on a snapshot. Its state is part of a crash dump, and garbage collection is kept short.

    Once the snapshot is filled, the garbage collector no longer looks at what is in it.
    """
    from ullage.runtime import keep_garbage_collection_short

    async def when_filled() -> None:
        await filled()
        keep_garbage_collection_short()

    waiting = asyncio.create_task(when_filled(), name="filled")
    try:
        with crash.capturing(lambda: snapshot.state):
            await work
    finally:
        waiting.cancel()


async def led(
    choice: ClusterChoice,
    namespace: str,
    election: str,
    term: "Callable[[Leadership], Awaitable[None]]",
    on_trouble: Callable[[str], None] = lambda _: None,
) -> None:
    """Run one term after another: a replica that lost the Lease stands for election again.

    That it is a standby, or what keeps it from standing for election, is logged once. `on_trouble` gets the latter, and
    an empty text when that is over.
    """
    import random

    from ullage.clock import WallClock
    from ullage.control.leader.election import ElectionLease, ElectionState, LeaderElector
    from ullage.control.leader.leadership import lead
    from ullage.control.leader.renewal import RenewalThread
    from ullage.errors import LeadershipLost
    from ullage.kube.auth.connect import find_access, open_api

    name = ElectionLease(namespace, election, identity())

    def candidate() -> LeaderElector:
        # Its own access: credentials that renew themselves belong to one loop, and this one runs in another.
        own = find_access(choice.kubeconfig, choice.context)
        return LeaderElector(open_api(own), name, clock=WallClock(), rng=random.Random(), on_wait=waits)

    def waits(state: ElectionState) -> None:
        on_trouble(state.trouble and f"lease {namespace}/{election}: {state.trouble}")
        if state.trouble:
            click.echo(f"{name.identity} cannot be elected: lease {namespace}/{election}: {state.trouble}", err=True)
        elif state.leader:
            click.echo(f"{name.identity} stands by: {state.leader} leads ({namespace}/{election})", err=True)

    async def served(leadership: "Leadership") -> None:
        on_trouble("")
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
