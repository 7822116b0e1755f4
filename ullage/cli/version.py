"""`ullage version`: what runs here, and what it would talk to."""

import asyncio
import platform

import click

from ullage import __version__
from ullage.cli.cluster import ClusterChoice, cluster_options

EXAMPLES = """\b
Examples:
  ullage version
  ullage version --cluster --context staging
"""


@click.command("version", epilog=EXAMPLES)
@click.option("--cluster", is_flag=True, help="Ask the cluster for its version too.")
@cluster_options
def command(cluster: bool, kubeconfig: str | None, context: str | None) -> None:
    """Print the versions of ullage and Python, and with --cluster of the API server."""
    click.echo(f"ullage {__version__} (Python {platform.python_version()})")
    if cluster:
        click.echo(f"cluster {asyncio.run(_server_version(ClusterChoice.of(kubeconfig, context)))}")


async def _server_version(choice: ClusterChoice) -> str:
    async with choice.connected() as api:
        return (await api.discover()).server_version
