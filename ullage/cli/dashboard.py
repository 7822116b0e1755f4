"""`ullage dashboard`: the cluster, its GPUs and every decision with its why, live in a browser. Only reads."""

import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.cli.process import listen_address, run_fast
from ullage.cli.setting_options import read_options, setting_options
from ullage.errors import UserError
from ullage.model.lease import LEASE_NAMESPACE
from ullage.model.scoring import DEFAULT_POLICY, LIVE_POLICIES

if TYPE_CHECKING:
    from ullage.config.dashboard import DashboardSettings
    from ullage.observe.probes import ListenAddress


EXAMPLES = """\b
Examples:
  ullage dashboard
  ullage dashboard --context staging --listen 127.0.0.1:8300
  ullage dashboard --listen 0.0.0.0:8300 --token-file token.txt
  ullage dashboard --history-file /var/lib/ullage/history.jsonl
  ullage dashboard --prometheus-url http://127.0.0.1:9090
"""


@click.command("dashboard", epilog=EXAMPLES)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:8300",
    show_default=True,
    help="Where to serve it. Port 0 takes any that is free.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    envvar="ULLAGE_DASHBOARD_TOKEN_FILE",
    show_envvar=True,
    help="Who looks must know what is in this file. Needed for every address that is not loopback.",
)
@click.option("--open", "opens", is_flag=True, help="Open it in the browser of this machine.")
@click.option("--namespace", default=LEASE_NAMESPACE, show_default=True, help="Where the Leases of GPUs are kept.")
@click.option(
    "--policy",
    type=click.Choice(LIVE_POLICIES),
    default=DEFAULT_POLICY.value,
    show_default=True,
    help="How GPUs are packed.",
)
@setting_options("dashboard")
@cluster_options
def command(listen: str, token_file: str | None, kubeconfig: str | None, context: str | None, **options: Any) -> None:
    """Show the cluster of the kubeconfig in a browser: every GPU, who has it, who waits and why, what was decided.

    It only reads: get, list and watch. Stops on SIGTERM and Ctrl-C.
    """
    from ullage.web.history.prometheus import check_url
    from ullage.web.serve.access import check_may_listen

    address, token = listen_address(listen), _token(token_file)
    if address is None:
        raise UserError("--listen: nothing to listen on")
    check_may_listen(address.host, token)
    settings = read_options(options).dashboard
    if settings.prometheus_url is not None:
        check_url(settings.prometheus_url)
    shown = _Shown(address, token, settings, **{name: options[name] for name in ("opens", "namespace", "policy")})
    run_fast(_serving(ClusterChoice.of(kubeconfig, context), shown))


@dataclass(frozen=True, slots=True)
class _Shown:
    """Address, token and settings of the page."""

    address: "ListenAddress"
    token: str
    settings: "DashboardSettings"
    opens: bool
    namespace: str
    policy: str


def _token(file: str | None) -> str:
    if file is None:
        return ""
    try:
        token = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--token-file: {file} cannot be read: {error}") from error
    if not token:
        raise UserError(f"--token-file: {file} is empty")
    return token


async def _serving(choice: ClusterChoice, shown: _Shown) -> None:
    from ullage.clock import WallClock
    from ullage.kube.auth.connect import find_access, open_api
    from ullage.runtime import keep_garbage_collection_short
    from ullage.web.history.opening import open_history
    from ullage.web.history.prometheus import PrometheusReader
    from ullage.web.live import LiveView, follow_cluster, served

    access = find_access(choice.kubeconfig, choice.context)
    api, clock, settings = open_api(access), WallClock(), shown.settings
    url_of = settings.prometheus_url
    prometheus = None if url_of is None else PrometheusReader(url_of, settings.prometheus_token_file)
    history = open_history(settings, clock)
    view = LiveView(
        clock,
        title=choice.context or "cluster",
        policy=shown.policy,
        history=history,
        history_interval=settings.history_interval,
    )
    view.when_read = keep_garbage_collection_short
    try:
        await api.discover()  # who is sent to a page wants to hear at once that the cluster cannot be reached
        async with AsyncExitStack() as open_pages:
            try:
                url = await open_pages.enter_async_context(
                    served(view, shown.address, shown.token, prometheus=prometheus)
                )
            except OSError as error:
                raise UserError(f"--listen: cannot listen on {shown.address}: {error.strerror or error}") from error
            click.echo(f"dashboard at {url}" + (" (open it once with ?token=...)" if shown.token else ""), err=True)
            if shown.opens:
                click.launch(f"{url}?token={shown.token}" if shown.token else url)
            await follow_cluster(api, view, seed=secrets.randbits(32), lease_namespace=shown.namespace)
    finally:
        await api.close()
        history.close()
