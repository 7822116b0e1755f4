"""`ullage plan scale`: what the controller would buy, taint, untaint and delete, loop by loop, until it settles."""

from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster_input import ClusterInputChoice, scene_options
from ullage.cli.plan_schedule_text import pods_named, workload_of
from ullage.cli.setting_options import read_options, setting_options
from ullage.cli.table import aligned
from ullage.decide.provisioning.vm_demand import moved_from
from ullage.errors import UserError
from ullage.model.units import Instant

if TYPE_CHECKING:
    from ullage.decide.explain.plan_scale import ScalePlan, ScaleStep
    from ullage.model.fact_event import ObjectKey

EXAMPLES = """\b
Examples:
  ullage plan scale -f cluster.yaml -f provisioners.yaml
  ullage plan scale -f cluster.yaml -f pools.yaml --max-gpus 64 -o json
  ullage plan scale --context staging
"""

_MOST_NAMED = 3


@click.command("scale", epilog=EXAMPLES)
@scene_options
@setting_options("provisioning.max_gpus", "provisioning.max_price_per_hour")
@click.option(
    "--output",
    "-o",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="For whom to print.",
)
def scale(
    where: ClusterInputChoice,
    policy: str,  # noqa: ARG001 - packing is the pools'
    output: str,
    **options: Any,
) -> None:
    """Rehearse what the NodeProvisioners would do, with the code of `ullage controller`, until nothing more would.

    Nodes come at once, clouds never fail and pods stay. Without -f the cluster of the kubeconfig is read; nothing in it
    is changed, and no cloud is asked.
    """
    from ullage.decide.explain.plan_scale import plan_scale

    budget = read_options(options).provisioning.budget
    scene = where.load()
    if not scene.provisioners:
        raise UserError(f"{scene.origin}: there is no NodeProvisioner; add one, such as with -f provisioners.yaml")
    plan = plan_scale(scene.snapshot, scene.provisioners, now=Instant(scene.now), budget=budget)
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(as_json(plan)), indent=2))
    else:
        click.echo("\n".join(as_lines(plan)))


def as_json(plan: "ScalePlan") -> dict[str, Any]:
    """Plan as JSON, for programs."""
    return {
        "steps": [_step(one) for one in plan.steps],
        "pools": {name: {"from": before, "to": after} for name, (before, after) in plan.sizes.items()},
        "unmet": [
            {"pod": str(moved_from(pod)), "provisioners": {name: why.value for name, why in refusals.items()}}
            for pod, refusals in sorted(plan.unmet.items())
        ],
        "settled": plan.settled,
    }


def _step(one: "ScaleStep") -> dict[str, Any]:
    return {
        "loop": one.loop,
        "afterSeconds": one.after,
        "provisioner": one.provisioner,
        "step": one.kind.value,
        "count": one.count,
        "nodes": list(one.nodes),
        "currentSize": one.current,
        "targetSize": one.target,
        "gpuUtilizationPercent": one.utilization_percent,
        "why": one.why,
        "recommended": one.recommended,
    }


def as_lines(plan: "ScalePlan") -> list[str]:
    """Plan as lines of text, for people."""
    lines: list[str] = []
    if plan.steps:
        rows = [("LOOP", "AFTER", "PROVISIONER", "STEP", "COUNT", "SIZE", "NODES", "WHY"), *map(_row, plan.steps)]
        lines += [*aligned(rows), ""]
    unmet: dict[tuple[str, str], list[ObjectKey]] = {}
    moves: list[str] = []
    for pod, refusals in sorted(plan.unmet.items()):
        said = ", ".join(f"{name}: {why.value}" for name, why in refusals.items())
        if (vm := moved_from(pod)) != pod:
            moves.append(f"VM pod {vm} finds no other node ({said})")
            continue
        unmet.setdefault((workload_of(pod), said), []).append(pod)
    for (_, said), pods in unmet.items():
        lines.append(f"{pods_named(pods)} {'stays' if len(pods) == 1 else 'stay'} without a node ({said})")
    lines += moves
    sizes = ", ".join(f"{name} {before} -> {after}" for name, (before, after) in plan.sizes.items())
    return [*lines, sizes if plan.settled else f"{sizes}; not settled after the last loop shown"]


def _row(one: "ScaleStep") -> tuple[str, ...]:
    named = ",".join(one.nodes[:_MOST_NAMED]) + ("..." if len(one.nodes) > _MOST_NAMED else "")
    kind = f"{one.kind.value} (advice)" if one.recommended else one.kind.value
    size = f"{one.current}/{one.target}"
    return str(one.loop), f"{one.after:g}s", one.provisioner, kind, str(one.count), size, named or "-", one.why
