"""`ullage scheduler`: places every pod that names it, GPU or not, until it is stopped."""

import asyncio
import hashlib
import re
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
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
    reporting_rights,
    run_fast,
)
from ullage.cli.setting_options import FILE, following_settings, read_options, refuse_random, setting_options
from ullage.errors import UserError
from ullage.model.scoring import DEFAULT_SCHEDULER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from ullage.config.settings import Settings
    from ullage.control.crash import CrashDump
    from ullage.control.leader.leadership import Leadership
    from ullage.control.scheduling.wiring import Scheduler
    from ullage.control.settings_reload import SettingsReloader
    from ullage.control.vms.wiring import VmServing
    from ullage.kube.auth.access import ClusterAccess
    from ullage.kube.client.api import KubeApi
    from ullage.observe.otel import OtelTracer
    from ullage.observe.probes import ListenAddress
    from ullage.observe.scheduler_metrics import SchedulerMetrics

ELECTION = "ullage-scheduler"
PERMIT_SERVICE, PERMIT_SECRET = "ullage-scheduler", "ullage-scheduler-tls"

EXAMPLES = """\b
Examples:
  ullage scheduler
  ullage scheduler --profile gpu-scheduler=fragmentation --profile batch-scheduler=packing
  ullage scheduler --settings policy.yaml
  ullage scheduler --context staging --no-leader-election --listen 127.0.0.1:9440
"""


@click.command("scheduler", epilog=EXAMPLES)
@setting_options("scheduling", "vms", "karpenter.enabled")
@click.option(
    "--leader-election/--no-leader-election",
    default=True,
    show_default=True,
    help="Wait for the lease of the one active scheduler of the first --profile.",
)
@click.option("--listen", metavar="HOST:PORT", help=LISTEN_HELP)
@click.option(
    "--permits",
    default="0.0.0.0:10299",
    show_default=True,
    metavar="HOST:PORT",
    help="Answer VM agents here, over HTTPS. Nothing listens before the cluster serves VirtualMachine.",
)
@click.option(
    "--state",
    default="0.0.0.0:10298",
    show_default=True,
    metavar="HOST:PORT",
    help="Serve the VM ledger at /state here, to users whom the API server lets get it.",
)
@click.option(
    "--permits-name",
    "permit_names",
    multiple=True,
    metavar="NAME",
    help="Name or address agents call; may be repeated. Default: the Service ullage-scheduler.",
)
@click.option(
    "--insecure-agents",
    is_flag=True,
    help="Answer VM agents over plain HTTP and without tokens: anyone who reaches the port can resize any VM.",
)
@cluster_options
def command(kubeconfig: str | None, context: str | None, listen: str | None, **options: Any) -> None:
    """Watch the cluster and place pods whose spec.schedulerName names a --profile, on exact GPUs where they claim them.

    Needs what `ullage install` brings. Stops cleanly on SIGTERM and Ctrl-C; a restart goes on where it was.
    """
    choice = ClusterChoice.of(kubeconfig, context)
    crash = crash_dump()
    run_fast(_scheduling(choice, read_settings(options), options, listen_address(listen), crash), crash)


def read_settings(options: "Mapping[str, Any]") -> "Settings":
    """Read the settings from all sources. Raises UserError."""
    return refuse_random(read_options(options), options[FILE])


def read_serving(options: "Mapping[str, Any]", namespace: str) -> "VmServing":
    """Read where VM agents are answered. Raises UserError."""
    from ullage.certs.rotator import SecretName
    from ullage.control.vms.certificate import PermitCertificate
    from ullage.control.vms.wiring import VmServing
    from ullage.kube.admission.webhook_configs import WebhookEndpoint
    from ullage.webhook.wiring import names_for

    permits, state = listen_address(options["permits"], "--permits"), listen_address(options["state"], "--state")
    if permits is None or state is None:
        raise UserError("--permits and --state: give HOST:PORT")
    names = tuple(options["permit_names"]) or names_for(WebhookEndpoint(namespace, PERMIT_SERVICE))
    certificate = PermitCertificate(names=names, secret=SecretName(namespace, PERMIT_SECRET))
    insecure, seed = options["insecure_agents"], secrets.randbits(32)
    return VmServing(permits=permits, state=state, certificate=certificate, insecure=insecure, seed=seed)


def election_of(profiles: "Mapping[str, str]") -> str:
    """The Lease by which one of several replicas leads. Those with another first profile elect their own leader."""
    first = next(iter(profiles))
    if first == DEFAULT_SCHEDULER:
        return ELECTION
    named = f"{ELECTION}-{first}"
    if re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", named):
        return named
    return f"{ELECTION}-{hashlib.sha256(first.encode()).hexdigest()[:16]}"


@dataclass(slots=True)
class _Process:
    """State that outlives a term of leadership."""

    metrics: "SchedulerMetrics"
    following: "SettingsReloader"
    """Settings in force."""
    serving: "VmServing"
    crash: "CrashDump"
    tracer: "OtelTracer | None"
    scheduler: "Scheduler | None" = field(default=None)
    leads: bool = False
    election: str = ""
    """Problem that keeps it from standing for election; empty if there is none."""

    def refresh(self) -> None:
        from ullage.clock import WallClock
        from ullage.control.scheduling.gauges import show

        if self.scheduler is not None and self.leads:
            show(self.metrics, self.scheduler.core, now=WallClock().now())
            self.scheduler.vms.show()

    def unready(self) -> str:
        """Return the problem that keeps it from being ready; empty if none. A standby is ready if it can lead."""
        return self.election or ("" if self.scheduler is None else self.scheduler.unready)

    def elects(self, trouble: str) -> None:
        self.election = trouble


async def _scheduling(
    choice: ClusterChoice,
    settings: "Settings",
    options: "Mapping[str, Any]",
    address: "ListenAddress | None",
    crash: "CrashDump",
) -> None:
    from prometheus_client import CollectorRegistry

    from ullage.kube.auth.connect import find_access
    from ullage.kube.client.resources import GPU_CLAIMS, GPU_NODE_STATUSES
    from ullage.observe.scheduler_metrics import SchedulerMetrics

    serving = read_serving(options, settings.scheduling.lease_namespace)
    access = find_access(choice.kubeconfig, choice.context)
    await check_served(access, GPU_CLAIMS, GPU_NODE_STATUSES)
    metrics = SchedulerMetrics(CollectorRegistry())
    election = election_of(settings.scheduling.policies())
    async with (
        following_settings(options, settings, election, metrics.registry) as following,
        _tracing(settings) as tracer,
    ):
        process = _Process(metrics, following, serving, crash, tracer)
        async with pages(address, metrics.registry, unready=process.unready, refresh=process.refresh):
            if options["leader_election"]:
                async with _Standby(access, process) as standby:
                    await led(choice, settings.scheduling.lease_namespace, election, standby.lead, process.elects)
            else:
                await _serve(access, process)


@asynccontextmanager
async def _tracing(settings: "Settings") -> "AsyncIterator[OtelTracer | None]":
    """Tracer during the block, if an endpoint is set; what is left is sent at the end. Raises UserError."""
    endpoint = settings.scheduling.trace_endpoint
    if endpoint is None:
        yield None
        return
    from ullage.observe.otel import OtelTracer, traces_url

    url = traces_url(endpoint, "scheduling.traceEndpoint")
    fraction = settings.scheduling.trace_fraction
    tracer = OtelTracer(url, service="ullage-scheduler", instance=identity(), fraction=fraction)
    try:
        yield tracer
    finally:
        await asyncio.to_thread(tracer.close)


async def _serve(access: "ClusterAccess", process: _Process) -> None:
    """Schedule without an election."""
    async with api_of_term(access, None) as api:
        process.scheduler, process.leads = _new_scheduler(api, process), True
        scheduler = process.scheduler
        await on_snapshot(scheduler.core.snapshot, scheduler.run(), scheduler.wait_ready, process.crash)


def _new_scheduler(api: "KubeApi", process: _Process) -> "Scheduler":
    from ullage.clock import WallClock
    from ullage.control.scheduling.wiring import Scheduler

    seed, settings = secrets.randbits(32), process.following.settings
    made = Scheduler(api, settings, WallClock(), instance=identity(), seed=seed, metrics=process.metrics)
    made.tracer = process.tracer
    made.vms.serving = process.serving
    process.following.program = made
    return made


class _Standby:
    """A scheduler that observes everything and decides nothing before it leads: then its snapshot is complete already.

    One for each term: a replica that lost the Lease cannot know what became of its last writes, and observes everything
    anew.
    """

    def __init__(self, access: "ClusterAccess", process: _Process) -> None:
        self._access = access
        self._process = process
        self._failure: BaseException | None = None

    async def __aenter__(self) -> "_Standby":
        self._whole = asyncio.current_task()
        self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()
        if self._failure is not None:
            raise self._failure

    async def lead(self, leadership: "Leadership") -> None:
        """Run one term, with the present snapshot."""
        self._transport.elected(leadership)
        if self._process.scheduler is not None:
            self._process.scheduler.vms.leads = lambda: leadership.remaining() > 0
        self._process.leads = True
        self._elected.set()
        try:
            await self._running
        finally:
            await self._end()
            self._begin()

    def _begin(self) -> None:
        import random

        from ullage.control.leader.guard import StandbyTransport
        from ullage.kube.client.rest import RestApi
        from ullage.kube.http.http import HttpTransport

        self._wire = reporting_rights(HttpTransport(self._access.endpoint, self._access.credentials))
        self._transport = StandbyTransport(self._wire)
        self._elected = asyncio.Event()
        self._process.leads = False
        api = RestApi(self._transport, rng=random.Random())
        self._process.scheduler = scheduler = _new_scheduler(api, self._process)
        running = on_snapshot(
            scheduler.core.snapshot, scheduler.run(self._elected.wait), scheduler.wait_ready, self._process.crash
        )
        self._running = asyncio.create_task(running, name="scheduler")
        self._running.add_done_callback(self._ended)

    def _ended(self, running: "asyncio.Task[None]") -> None:
        """End the process with the failure of a standby, instead of waiting for an election to show it."""
        failed = not running.cancelled() and running.exception() is not None
        if failed and not self._process.leads and self._whole is not None:
            self._failure = running.exception()
            self._whole.cancel()

    async def _end(self) -> None:
        self._process.leads = False
        self._running.cancel()
        await asyncio.wait((self._running,))
        await self._wire.close()
