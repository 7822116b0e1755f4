"""`ullage demo`: a whole GPU cluster in one process, a story that shows what it does, and room for a newcomer."""

import math
from dataclasses import dataclass
from typing import Any

import click

SCENARIOS = {
    "tour": "claims, a gang that waits, nodes bought and drained, a GPU that dies",
    "crowding": "a fleet that cannot grow: packing against fragmentation, gangs, preemption",
    "ebb": "load leaves a large pool: nodes are drained in parallel, budgets are kept",
    "fleet": "two hundred nodes of four models: services, shares, large gangs, a night",
    "karpenter": "requests without a GPU make Karpenter buy nodes, and get them before anybody else",
    "vms": "live-resizable VMs: permits, pressure and migration",
}
"""Scenarios with their description in `--help`, kept here so that it does not import a simulator. A test compares
them with the catalogue."""

EXAMPLES = """\b
Examples:
  ullage demo
  ullage demo --scenario ebb --speed 60
  ullage demo --scenario fleet --speed 10
  ullage demo --scenario list
  ullage demo --no-browser --duration 120 > story.txt
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options given on the command line."""

    scenario: str
    speed: float
    seed: int
    duration: float | None
    browser: bool


class _Finite(click.FloatRange):
    """A range without `nan` and `inf`, which are in no range and past all."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


@click.command("demo", epilog=EXAMPLES)
@click.option(
    "--scenario",
    default="tour",
    show_default=True,
    metavar="NAME",
    help="Which story: " + "; ".join(f"{name} ({summary})" for name, summary in SCENARIOS.items()) + "; or list.",
)
@click.option(
    "--speed",
    type=_Finite(min=0.1, max=1000.0),
    default=30.0,
    show_default=True,
    help="Simulated seconds in one of yours.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of all that chance decides.")
@click.option(
    "--duration",
    type=_Finite(min=0.0, min_open=True),
    help="Seconds, of yours, after which it ends. Default: when you press Ctrl-C.",
)
@click.option("--browser/--no-browser", default=True, help="Open the dashboard in a browser, if there is one.")
def command(**options: Any) -> None:
    """Start a simulated GPU cluster and tell a story in it.

    A simulated API server, kubelets, workload controllers and a cloud, with the real scheduler, webhook, provisioner,
    drain and node agents at work. Watch it in this terminal and in a browser, and talk to it with kubectl. Nothing
    outside this process is touched, and nothing is left behind.

    \b
    Keys, also as buttons in the browser:
      space  pause and go on      s  one step      + -  speed
      r  from the beginning, the same seed tells the same story
      b  break a GPU   f  fix GPUs   g  add a gang   d  drain a node
      q  quit
    """
    asked = DemoOptions(**options)
    if asked.scenario == "list":
        for name, summary in SCENARIOS.items():
            click.echo(f"{name:10} {summary}")
        return
    from ullage.cli.demo_show import show

    show(asked)
