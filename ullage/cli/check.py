"""`ullage check`: what is missing or in the way, before and after installing."""

import asyncio
from typing import TYPE_CHECKING

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.model.lease import LEASE_NAMESPACE

if TYPE_CHECKING:
    from ullage.deploy.findings import Finding

EXAMPLES = """\b
Examples:
  ullage check
  ullage check --context staging --output json
"""


@click.command("check", epilog=EXAMPLES)
@click.option("--namespace", default=LEASE_NAMESPACE, show_default=True, help="Where Ullage is, or will be.")
@click.option(
    "--output", "-o", type=click.Choice(("text", "json")), default="text", show_default=True, help="For whom to print."
)
@cluster_options
@click.pass_context
def command(shell: click.Context, namespace: str, output: str, kubeconfig: str | None, context: str | None) -> None:
    """Look at a cluster, and say what is missing or in the way of Ullage, each with the next step.

    Looks at versions, definitions, components, the webhook, GPUs and agents, clocks, permissions, and other schedulers
    and autoscalers. Changes nothing. Exit code 1 if there is a problem; warnings alone are no problem.
    """
    found = asyncio.run(_look(ClusterChoice.of(kubeconfig, context), namespace))
    problems = sum(one.weight == "problem" for one in found)
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
    else:
        for one in found:
            click.echo(f"{one.weight}: {one.says} [{one.code}]\n  next: {one.next_step}")
        warnings = len(found) - problems
        click.echo(f"{problems} problems, {warnings} warnings" if found else "all is well")
    shell.exit(1 if problems else 0)


async def _look(choice: ClusterChoice, namespace: str) -> "list[Finding]":
    from ullage.clock import WallClock
    from ullage.deploy.findings import findings
    from ullage.deploy.looking import ClusterLook

    async with choice.connected() as api:
        return findings(await ClusterLook(api, namespace, WallClock()).facts())
