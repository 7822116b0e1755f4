"""`ullage demo`: a simulated GPU cluster, played in virtual time and shown as a table."""

from typing import TYPE_CHECKING

import click

from ullage.model.resources import whole_gpus

if TYPE_CHECKING:
    from rich.table import Table

    from ullage.state.cluster import ClusterState

EXAMPLES = """\b
Examples:
  ullage demo
  ullage demo --seed 7
"""


@click.command("demo", epilog=EXAMPLES)
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same cluster, to the byte.")
def command(seed: int) -> None:
    """Start a simulated API server with kubelets, put four GPU nodes and ten pods in it, and show what came of it."""
    from rich.console import Console

    from ullage.sim.demo.still import play
    from ullage.sim.time import run_virtual

    state = run_virtual(play(seed))
    console = Console()
    console.print(node_table(state))
    console.print(pod_table(state))
    waiting = [pod for pod in state.pods.values() if not pod.node]
    idle = sum(whole_gpus(state.free_on(name)) for name in state.nodes)
    asked = min((whole_gpus(pod.requests) for pod in waiting), default=0)
    console.print(f"{idle} GPUs are idle, {len(waiting)} pods wait: no node has the {asked} free that each asks for.")


def node_table(state: "ClusterState") -> "Table":
    """Nodes with their GPUs, used and free."""
    from rich.table import Table

    table = Table(title="Nodes", title_justify="left")
    for heading in ("node", "ready", "GPUs", "used", "free", "pods"):
        table.add_column(heading, justify="left" if heading in ("node", "GPUs") else "right")
    for name in sorted(state.nodes):
        used, free = whole_gpus(state.used_on(name)), whole_gpus(state.free_on(name))
        ready = "yes" if state.nodes[name].ready else "no"
        table.add_row(name, ready, "■" * used + "□" * free, str(used), str(free), str(len(state.pods_on(name))))
    return table


def pod_table(state: "ClusterState") -> "Table":
    """Pods with what they ask for and where they are."""
    from rich.table import Table

    table = Table(title="Pods", title_justify="left")
    for heading in ("pod", "phase", "GPUs", "node"):
        table.add_column(heading, justify="right" if heading == "GPUs" else "left")
    for key in sorted(state.pods):
        pod = state.pods[key]
        table.add_row(str(key), pod.phase, str(whole_gpus(pod.requests)), pod.node or "(waits)")
    return table
