"""`ullage plan drain`: which nodes could be removed together now, where their pods would go, and why others stay."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ullage.cli.cluster_input import ClusterInput, ClusterInputChoice, scene_options
from ullage.cli.plan_schedule_text import MOST_ROWS
from ullage.cli.setting_options import is_given, read_options, setting_options
from ullage.cli.table import aligned
from ullage.model.units import Instant

if TYPE_CHECKING:
    from ullage.cli.cluster import ClusterChoice
    from ullage.decide.draining.inputs import DrainPlan
    from ullage.decide.explain.drain_trial import DrainTrials
    from ullage.model.draining import RemovableNode, UnremovableNode, WorkloadReplicas

EXAMPLES = """\b
Examples:
  ullage plan drain -f cluster.yaml
  kubectl get nodes,pods,pdb,rs -A -o yaml | ullage plan drain -f - -o json
  ullage plan drain --context staging --utilization-threshold 0.7 --no-skip-nodes-with-local-storage
"""

_MOST_NAMED = 3
RULES = (
    "utilization_threshold",
    "gpu_utilization_threshold",
    "ignore_daemonsets_utilization",
    "ignore_mirror_pods_utilization",
    "skip_nodes_with_system_pods",
    "skip_nodes_with_local_storage",
    "skip_nodes_with_custom_controller_pods",
    "min_replica_count",
    "system_pod_timeout",
    "scale_down_unready",
    "allow_serial_eviction",
)
"""Settings of draining that decide which nodes can be removed now."""


@click.command("drain", epilog=EXAMPLES)
@scene_options
@setting_options(*(f"draining.{name}" for name in RULES))
@click.option(
    "--pool", "pools", multiple=True, metavar="NAME", help="Only nodes of this NodeProvisioner; may be repeated."
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="For whom to print.",
)
def drain(where: ClusterInputChoice, policy: str, pools: tuple[str, ...], output: str, **options: Any) -> None:
    """Find nodes that can be removed all together: every pod on them has a place elsewhere, every budget lasts.

    Decides with the code of `ullage controller`, for this moment: how long nodes have been unneeded does not matter.
    Without -f the cluster of the kubeconfig is read; nothing in it is changed. With -f the time is that of the newest
    GpuNodeStatus report in the files, else of the newest pod: the same files give the same plan. Pools that are drained
    have thresholds of their own, unless --gpu-utilization-threshold is given.
    """
    from ullage.decide.draining.inputs import DrainPolicy

    scene = where.load()
    settings = read_options(options)
    drains = drain_trials(
        scene,
        where,
        packing=policy,
        rules=DrainPolicy.of(settings.draining, settings.vms),
        own_thresholds=not is_given("draining", "gpu_utilization_threshold"),
    )
    plan = drains.plan(scene.snapshot, scene.provisioners, _nodes_of(scene, pools) if pools else None)
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(as_json(plan)), indent=2))
    else:
        click.echo("\n".join(as_lines(plan)))


def drain_trials(scene: ClusterInput, where: ClusterInputChoice, **rules: Any) -> "DrainTrials":
    """Maker of drain plans for this cluster; `rules` are its fields."""
    from ullage.decide.draining.inputs import DrainInputs
    from ullage.decide.explain.drain_trial import DrainTrials

    workloads, kinds = (scene.workloads, ()) if where.files else asyncio.run(_live_workloads(where.cluster))
    facts = DrainInputs(workloads={one.uid: one for one in workloads}, workload_kinds=frozenset(kinds))
    claims = scene.known.unreadable_claims
    return DrainTrials(facts=facts, now=Instant(plan_time(scene)), unreadable_claims=claims, **rules)


def _nodes_of(scene: ClusterInput, pools: tuple[str, ...]) -> set[str]:
    from ullage.model.provisioner import PROVISIONER_LABEL

    nodes = scene.snapshot.state.nodes.values()
    return {node.name for node in nodes if node.labels.get(PROVISIONER_LABEL, "") in pools}


async def _live_workloads(choice: "ClusterChoice") -> "tuple[list[WorkloadReplicas], tuple[str, ...]]":
    """Controllers in the cluster, and the kinds of which we may see all."""
    from ullage.errors import Forbidden, NotFound
    from ullage.kube.client.resource import Resource
    from ullage.kube.client.resources import DAEMON_SETS, JOBS, REPLICA_SETS, STATEFUL_SETS
    from ullage.kube.read.workload import read_workload

    found: list[WorkloadReplicas] = []
    seen: list[str] = []
    resources: tuple[Resource[Any], ...] = (REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS)
    async with choice.connected() as api:
        for resource in resources:
            try:
                found += [read_workload(raw, resource.kind) for raw in (await api.list(resource)).items]
            except (Forbidden, NotFound):
                click.echo(f"warning: {resource.kind}s cannot be listed; they are taken to be there", err=True)
            else:
                seen.append(resource.kind)
    return found, tuple(seen)


def plan_time(scene: ClusterInput) -> float:
    """Instant to decide for. Files without a report have no time of their own."""
    if scene.now:
        return scene.now
    pods = scene.snapshot.state.pods.values()
    return max((max(pod.created, pod.marks.deleted_at or 0.0) for pod in pods), default=0.0)


def as_json(plan: "DrainPlan") -> dict[str, Any]:
    """Plan as JSON, for programs."""
    return {
        "removable": [
            {
                "node": one.node,
                "empty": one.empty,
                "reason": one.reason.value,
                "moves": [{"pod": str(move.pod), "to": move.to} for move in one.moves],
            }
            for one in plan.removable
            if not one.waits_for
        ],
        "unremovable": [
            {"node": one.node, "reason": one.reason.value, "pod": None if one.pod is None else str(one.pod)}
            for one in _staying(plan)
        ],
        "pdbs": [{"name": str(key), "left": left} for key, left in sorted(plan.budgets_left.items())],
    }


def _staying(plan: "DrainPlan") -> "list[UnremovableNode]":
    """Nodes that stay, and nodes that wait for a pod to finish, by name."""
    from ullage.model.draining import UnremovableNode, UnremovableReason

    waiting = [
        UnremovableNode(node=one.node, reason=UnremovableReason.WAITS_FOR_COMPLETION, pod=one.waits_for[0])
        for one in plan.removable
        if one.waits_for
    ]
    return sorted((*plan.unremovable, *waiting), key=lambda one: one.node)


def as_lines(plan: "DrainPlan") -> list[str]:
    """Plan as lines of text, for people."""
    lines: list[str] = []
    going, staying = [one for one in plan.removable if not one.waits_for], _staying(plan)
    if going:
        lines += [*aligned([("REMOVABLE", "WHY", "PODS", "MOVES"), *map(_going_row, going)]), ""]
    if staying:
        lines += [*aligned([("STAYS", "WHY", "POD", "DETAIL"), *_staying_rows(staying)]), ""]
    if plan.budgets_left:
        rows = [("PDB", "EVICTIONS LEFT"), *((str(key), str(left)) for key, left in sorted(plan.budgets_left.items()))]
        lines += [*aligned(rows), ""]
    moves = len({move.pod for one in going for move in one.moves})
    would = "1 pod would move" if moves == 1 else f"{moves} pods would move"
    return [*lines, f"{len(going)} of {len(going) + len(staying)} nodes can go together, {would}"]


def _going_row(one: "RemovableNode") -> tuple[str, ...]:
    named = ", ".join(f"{move.pod} -> {move.to}" for move in one.moves[:_MOST_NAMED])
    more = f" and {len(one.moves) - _MOST_NAMED} more" if len(one.moves) > _MOST_NAMED else ""
    return one.node, one.reason.value, str(len(one.moves)), f"{named}{more}" or "-"


def _staying_rows(staying: "list[UnremovableNode]") -> list[tuple[str, ...]]:
    """A row for each node; where there are many, nodes that stay for the same reason share one."""
    if len(staying) <= MOST_ROWS:
        return [_staying_row(one) for one in staying]
    by_reason: dict[str, list[UnremovableNode]] = {}
    for one in staying:
        by_reason.setdefault(one.reason.value, []).append(one)
    rows = []
    for alike in by_reason.values():
        node, *rest = _staying_row(alike[0])
        rows.append((node if len(alike) == 1 else f"{node} and {len(alike) - 1} more", *rest))
    return rows


def _staying_row(one: "UnremovableNode") -> tuple[str, ...]:
    return one.node, one.reason.value, "-" if one.pod is None else str(one.pod), one.detail or "-"
