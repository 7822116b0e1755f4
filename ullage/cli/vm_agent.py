"""`ullage vm-agent`: resizes the VMs of this node until it is stopped."""

import asyncio
import os
import secrets
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.cli.process import LISTEN_HELP, listen_address, reporting_rights, until_stopped
from ullage.cli.setting_options import following_settings, read_options, setting_options
from ullage.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from ullage.config.settings import Settings
    from ullage.config.vm_agent import VmAgentSettings
    from ullage.kube.client.api import KubeApi
    from ullage.observe.probes import ListenAddress
    from ullage.vm_agent.client import SchedulerAddress
    from ullage.vm_agent.wiring import VmAgent

SCHEDULER = "https://ullage-scheduler.ullage-system.svc:10299"
TOKEN_FILE = "/var/run/secrets/ullage/scheduler/token"

EXAMPLES = """\b
Examples:
  ullage vm-agent --node-name vm-node-1 --scheduler-ca /etc/ullage/ca.crt
  ullage vm-agent --scheduler https://10.0.0.7:10299 --scheduler https://10.0.0.8:10299 --settings vms.yaml
  ullage vm-agent --scheduler http://127.0.0.1:10299 --insecure-scheduler --listen 127.0.0.1:9443
"""


@click.command("vm-agent", epilog=EXAMPLES)
@click.option(
    "--node-name", metavar="NAME", help="The Node this machine is. Default: $NODE_NAME, then the host's name."
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    metavar="URL",
    help=f"Where the scheduler answers agents. May be repeated: the next one is tried after a failure. "
    f"Default: {SCHEDULER}.",
)
@click.option(
    "--scheduler-ca", metavar="FILE", help="CA certificates of the scheduler, in PEM; read again each minute."
)
@click.option("--scheduler-name", metavar="DNS", default="", help="Name its certificate has, if not that of the URL.")
@click.option(
    "--token-file",
    default=TOKEN_FILE,
    show_default=True,
    metavar="FILE",
    help="ServiceAccount token shown to the scheduler; read again as it is renewed.",
)
@click.option(
    "--insecure-scheduler", is_flag=True, help="Allow http:// and send no token. For tests and demonstrations."
)
@setting_options("vmagent")
@click.option("--listen", metavar="HOST:PORT", help=LISTEN_HELP)
@cluster_options
def command(kubeconfig: str | None, context: str | None, listen: str | None, **options: Any) -> None:
    """Watch the VMs of this node and resize them by their load: asked of the scheduler first on the way up, told to it
    on the way down.

    While the scheduler cannot be reached VMs shrink freely, and grow up to their last permit. Needs the kind
    VirtualMachine and a scheduler that answers agents. Stops cleanly on SIGTERM and Ctrl-C.
    """
    node = options["node_name"] or os.environ.get("NODE_NAME") or socket.gethostname()
    settings = read_options(options)
    address = read_address(options)
    api = partial(_open, ClusterChoice.of(kubeconfig, context))
    asyncio.run(until_stopped(_serve(api, node, address, (settings, options), listen_address(listen))))


def read_address(options: dict[str, Any]) -> "SchedulerAddress":
    """Read scheduler, trust and token from the options. Raises UserError."""
    from ullage.vm_agent.client import SchedulerAddress

    servers: tuple[str, ...] = options["schedulers"] or (SCHEDULER,)
    insecure: bool = options["insecure_scheduler"]
    for server in servers:
        scheme, _, host = server.partition("://")
        if scheme not in ("http", "https") or not host.strip("/"):
            raise UserError(f"--scheduler: {server!r} is not a URL such as {SCHEDULER}")
        if scheme == "http" and not insecure:
            raise UserError(f"--scheduler: {server} has no TLS; use https, or --insecure-scheduler for a test")
    authority = Path(options["scheduler_ca"]) if options["scheduler_ca"] else None
    if authority is not None and not authority.is_file():
        raise UserError(f"--scheduler-ca: {authority} is not a file; give the CA certificates of the scheduler in PEM")
    token = None if insecure else Path(options["token_file"])
    if token is not None and not token.is_file():
        raise UserError(
            f"--token-file: {token} is not a file; mount a projected ServiceAccount token there, or use "
            "--insecure-scheduler for a test"
        )
    return SchedulerAddress(servers=servers, authority=authority, server_name=options["scheduler_name"], token=token)


def _open(choice: ClusterChoice) -> "KubeApi":
    from ullage.kube.auth.connect import find_access, open_api

    return open_api(find_access(choice.kubeconfig, choice.context), around=reporting_rights)


async def _serve(
    opened: "Callable[[], KubeApi]",
    node: str,
    address: "SchedulerAddress",
    said: "tuple[Settings, dict[str, Any]]",
    listen: "ListenAddress | None",
) -> None:
    """Run the agent. `said`: settings and the options they were read from, whose file is followed."""
    import random

    from prometheus_client import CollectorRegistry

    from ullage.kube.client.resources import VIRTUAL_MACHINES
    from ullage.vm_agent.client import PermitClient, SchedulerTransport
    from ullage.vm_agent.metrics_source import HttpMetricsSource
    from ullage.vm_agent.wiring import AgentOutside, metrics_endpoint

    settings, options = said
    api, registry = opened(), CollectorRegistry()
    source = HttpMetricsSource(metrics_endpoint(settings.vmagent), random.Random())
    permits = PermitClient(SchedulerTransport(address), timeout=settings.vmagent.request_timeout)
    try:
        if VIRTUAL_MACHINES not in await api.discover():
            raise UserError("the cluster does not serve VirtualMachine; install the VM controller and its kinds first")
        agent = _new_agent(node, AgentOutside(api, permits, source), settings.vmagent, registry)
        async with following_settings(options, settings, f"ullage-vm-agent-{node}", registry) as following:
            following.program = agent
            await _run(agent, listen)
    finally:
        await permits.close()
        await source.close()
        await api.close()


def _new_agent(node: str, outside: Any, settings: "VmAgentSettings", registry: "CollectorRegistry") -> "VmAgent":
    from ullage.clock import WallClock
    from ullage.observe.vm_agent_metrics import VmAgentMetrics
    from ullage.vm_agent.wiring import VmAgent, scaling_policy

    metrics = VmAgentMetrics(registry)
    return VmAgent(node, outside, scaling_policy(settings), WallClock(), metrics, seed=secrets.randbits(32))


async def _run(agent: "VmAgent", listen: "ListenAddress | None") -> None:
    from ullage.observe.probes import serving

    if listen is None:
        await agent.run()
        return
    async with serving(listen, agent.metrics.registry, agent.checks, before_scrape=agent.show):
        await agent.run()
