"""`ullage plan …`: what would be done, without doing it."""

from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster_input import ClusterInputChoice, scene_options
from ullage.cli.plan_drain import drain
from ullage.cli.plan_scale import scale
from ullage.cli.table import aligned

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
def schedule(where: ClusterInputChoice, policy: str, output: str, exit_code: bool) -> None:
    """Decide where every pod without a node would go, whatever scheduler it names, with the code of `ullage scheduler`.

    Without -f the cluster of the kubeconfig is read; nothing in it is changed. With -f pods that have a nodeName run
    there, and the time is that of the newest GpuNodeStatus report in the files: the same files give the same plan.
    """
    from ullage.decide.explain.plan_schedule import plan_schedule

    scene = where.load()
    plan = plan_schedule(scene.snapshot, scene.known, now=scene.now, policy=policy)
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(as_json(plan)), indent=2))
    else:
        click.echo("\n".join(as_lines(plan)))
    if exit_code and plan.unschedulable:
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
    return {"pod": str(one.pod), "reasons": reasons, "helps": list(one.steps)}


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


def as_lines(plan: "SchedulePlan") -> list[str]:
    """Plan as lines of text, for people."""
    lines: list[str] = []
    if plan.placements:
        rows = [("POD", "NODE", "GPUS", "ISLANDS", "SCORE"), *map(_placement_row, plan.placements)]
        lines += [*aligned(rows), ""]
    if plan.gangs:
        rows = [("GANG", "NEEDS", "BOUND", "PLACED", "WHY NOT")]
        rows += [(str(g.gang), str(g.min_member), str(g.bound), str(g.placed), g.detail) for g in plan.gangs]
        lines += [*aligned(rows), ""]
    for one in plan.unschedulable:
        lines += [f"{one.pod} has no place", *_reason_lines(one), ""]
    return [*lines, f"{len(plan.placements)} placed, {len(plan.unschedulable)} without a place"]


def _placement_row(one: "PlannedPlacement") -> tuple[str, str, str, str, str]:
    written = _placement(one)
    gpus = ",".join(map(str, written["gpus"])) or ("by count" if "byCount" in written else "-")
    if "shareMilli" in written:
        gpus += f" ({written['shareMilli'] / 10:g} %)"
    score = "-" if one.placement.score is None else str(one.placement.score)
    return str(one.pod), one.placement.node, gpus, str(written["islands"] or "-"), score


def _reason_lines(one: "UnschedulablePod") -> list[str]:
    rows = [
        (f"  {why.nodes} {'node' if why.nodes == 1 else 'nodes'}", why.reason.value, _example(why.example, why.detail))
        for why in one.rejections
    ]
    return [*aligned(rows), *(f"  helps: {step}" for step in one.steps)]


def _example(node: str, detail: str) -> str:
    return ": ".join(part for part in (node, detail) if part)
