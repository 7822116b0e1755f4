"""`ullage plan …`: what would be done, without doing it."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster_input import ClusterInputChoice, scene_options
from ullage.cli.explain import remedies_as_json
from ullage.cli.plan_drain import drain
from ullage.cli.plan_scale import scale
from ullage.cli.plan_schedule_text import plan_lines
from ullage.model.units import Instant

if TYPE_CHECKING:
    from ullage.decide.explain.plan_schedule import GangPlan, PlannedPlacement, SchedulePlan, UnschedulablePod

UNSCHEDULABLE = 3
"""Exit code of `--exit-code` where a pod has no place."""

EXAMPLES = """\b
Examples:
  ullage plan schedule -f cluster.yaml
  ullage plan schedule --context staging
  ullage plan scale -f cluster.yaml -f provisioners.yaml
  ullage plan drain -f cluster.yaml
"""

SCHEDULE_EXAMPLES = """\b
Examples:
  ullage plan schedule -f cluster.yaml -f new-pods.yaml
  kubectl get nodes,pods,gpunodestatuses,gpuclaims -A -o yaml | ullage plan schedule -f - -o json
  ullage plan schedule --policy packing --exit-code
  ullage plan schedule -f cluster.yaml --prove
"""


@click.group("plan", epilog=EXAMPLES)
def command() -> None:
    """Show what would be done, without doing it."""


command.add_command(scale)
command.add_command(drain)


@command.command("schedule", epilog=SCHEDULE_EXAMPLES)
@scene_options
@click.option(
    "--output",
    "-o",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="For whom to print.",
)
@click.option(
    "--exit-code", is_flag=True, help=f"Exit with {UNSCHEDULABLE} if a pod has no place; otherwise that is 0."
)
@click.option("--prove", is_flag=True, help="Try every advice on a copy of the cluster, and say whether it works.")
@click.option("--all", "every", is_flag=True, help="A line for every pod, also where there are many of a workload.")
def schedule(where: ClusterInputChoice, policy: str, output: str, **how: bool) -> None:
    """Decide where every pod without a node would go, whatever scheduler it names, with the code of `ullage scheduler`.

    Without -f the cluster of the kubeconfig is read; nothing in it is changed. With -f pods that have a nodeName run
    there, and the time is that of the newest GpuNodeStatus report in the files: the same files give the same plan.
    With --prove the advice for pods without a place is what `ullage explain` says, NodeProvisioners included, and is
    tried on a copy of the cluster for one pod of each kind.
    """
    from ullage.decide.explain.plan_schedule import plan_schedule

    scene = where.load()
    prove = how["prove"]
    known = replace(scene.known, pools=scene.provisioners) if prove else scene.known
    plan = plan_schedule(scene.snapshot, known, now=Instant(scene.now), policy=policy, prove=prove)
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(as_json(plan)), indent=2))
    else:
        click.echo("\n".join(plan_lines(plan, every=how["every"])))
    if how["exit_code"] and plan.unschedulable:
        raise click.exceptions.Exit(UNSCHEDULABLE)


def as_json(plan: "SchedulePlan") -> dict[str, Any]:
    """Plan as JSON, for programs."""
    return {
        "placements": [_placement(one) for one in plan.placements],
        "unschedulable": [_unplaced(one) for one in plan.unschedulable],
        "gangs": [_gang(one) for one in plan.gangs],
    }


def _placement(one: "PlannedPlacement") -> dict[str, Any]:
    choice = one.placement.choice
    written: dict[str, Any] = {
        "pod": str(one.pod),
        "node": one.placement.node,
        "gpus": list(choice.ids) if choice is not None else [],
        "islands": choice.islands if choice is not None and choice.ids else 0,
        "score": one.placement.score,
    }
    if choice is None:
        return written
    if not choice.ids:
        written["byCount"] = True
    elif choice.instances:
        written["instances"] = list(choice.instances)
    elif choice.share_milli != 1000:
        written["shareMilli"] = choice.share_milli
    return written


def _unplaced(one: "UnschedulablePod") -> dict[str, Any]:
    reasons = [
        {"reason": why.reason.value, "nodes": why.nodes, "example": why.example or None, "detail": why.detail}
        for why in one.rejections
    ]
    written = {"pod": str(one.pod), "reason": one.reason, "reasons": reasons, "helps": list(one.steps)}
    if one.tried_for is not None:
        written |= {"triedFor": str(one.tried_for), "remedies": remedies_as_json(one.remedies)}
    return written


def _gang(one: "GangPlan") -> dict[str, Any]:
    return {
        "gang": str(one.gang),
        "minMember": one.min_member,
        "members": [str(member) for member in one.members],
        "bound": one.bound,
        "placed": one.placed,
        "complete": one.bound + one.placed >= one.min_member,
        "detail": one.detail,
    }
