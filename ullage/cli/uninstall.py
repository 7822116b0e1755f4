"""`ullage uninstall`: takes an installation away again, and leaves nothing behind."""

import asyncio

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.model.lease import LEASE_NAMESPACE

EXAMPLES = """\b
Examples:
  ullage uninstall --yes
  ullage uninstall --yes --keep-definitions --context staging
"""


@click.command("uninstall", epilog=EXAMPLES)
@click.option("--namespace", default=LEASE_NAMESPACE, show_default=True, help="Where Ullage is installed.")
@click.option("--keep-definitions", is_flag=True, help="Keep our kinds, and the claims, quotas and pools there are.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=120.0, show_default=True, help="Seconds for each step."
)
@cluster_options
def command(
    namespace: str, keep_definitions: bool, yes: bool, timeout: float, kubeconfig: str | None, context: str | None
) -> None:
    """Delete the webhook configurations first, then workloads, marks on nodes, our kinds, roles and the namespace.

    Pods that run keep running, and keep the GPUs they see; nobody guards them any more. GpuClaims, GpuQuotas and
    NodeProvisioners go with their kinds, unless --keep-definitions is given. Safe to repeat.
    """
    if not yes:
        lost = "" if keep_definitions else ", with all GpuClaims, GpuQuotas and NodeProvisioners"
        click.confirm(f"Remove Ullage from this cluster (namespace {namespace}){lost}?", abort=True, err=True)
    asyncio.run(_uninstall(ClusterChoice.of(kubeconfig, context), namespace, timeout, keep=keep_definitions))
    click.echo("uninstalled")


async def _uninstall(choice: ClusterChoice, namespace: str, timeout: float, *, keep: bool) -> None:
    from ullage.deploy.uninstalling import Uninstaller

    async with choice.connected() as api:
        await Uninstaller(api, namespace, click.echo, seconds=timeout).run(keep_definitions=keep)
