"""`ullage dump`: the cluster as ullage sees it, for bug reports and for the simulator."""

import asyncio
from pathlib import Path

import click

from ullage.cli.cluster import ClusterChoice, cluster_options
from ullage.cli.output_file import write_whole

EXAMPLES = """\b
Examples:
  ullage dump > state.json
  ullage dump --context staging --output state.json
"""


@click.command("dump", epilog=EXAMPLES)
@click.option("--output", "-o", metavar="FILE", help="Write here instead of standard output; replaced in one step.")
@cluster_options
def command(output: str | None, kubeconfig: str | None, context: str | None) -> None:
    """Read the cluster, and write the state that decisions are made on as JSON, with the objects `ullage replay` needs.

    Changes nothing in the cluster. The same state gives the same bytes, but for the moment it was taken at. Commands,
    environments and whatever else says nothing about placement is left out of the objects.
    """
    text = asyncio.run(_read(ClusterChoice.of(kubeconfig, context)))
    if output is None:
        click.echo(text.decode())
        return
    write_whole(Path(output), text + b"\n", "--output")


async def _read(choice: ClusterChoice) -> bytes:
    from ullage.clock import WallClock
    from ullage.kube.manifests.cluster_dump import read_objects
    from ullage.state.dump import dump
    from ullage.state.snapshot import ClusterSnapshot
    from ullage.state.vm_document import ledger_document
    from ullage.watch.sources import read_cluster

    async with choice.connected() as api:
        state = await read_cluster(api)
        objects = await read_objects(api, _warn)
    room = ClusterSnapshot(state).vms
    ledger = ledger_document(room) if room.active else None
    return dump(state, now=WallClock().now(), objects=objects, vm_ledger=ledger)


def _warn(text: str) -> None:
    click.echo(f"warning: {text}; it is left out", err=True)
