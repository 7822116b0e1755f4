"""Lines of `ullage plan schedule`: pods of one workload in one row where there are many, and a legend."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ullage.cli.explain import advice_lines
from ullage.cli.table import aligned
from ullage.decide.explain.waiting_groups import without_generated

if TYPE_CHECKING:
    from ullage.decide.explain.plan_schedule import PlannedPlacement, SchedulePlan, UnschedulablePod
    from ullage.model.fact_event import ObjectKey

MOST_ROWS = 20
"""Placements up to which every pod has a row of its own."""
_MOST_NODES = 3
_LEGEND = (
    "ISLANDS: NVLink islands the GPUs are in. SCORE: level the policy gives the node; higher is better, and only nodes "
    "for the same pod compare."
)


def plan_lines(plan: "SchedulePlan", *, every: bool = False) -> list[str]:
    """Plan as lines of text, for people. `every` gives each pod a row of its own."""
    lines: list[str] = []
    if plan.placements:
        grouped = len(plan.placements) > MOST_ROWS and not every
        rows = _workload_rows(plan.placements) if grouped else _pod_rows(plan.placements)
        lines += [*aligned(rows), "", *([] if grouped else [_LEGEND, ""])]
    if plan.gangs:
        gangs = [("GANG", "NEEDS", "BOUND", "PLACED", "WHY NOT")]
        gangs += [(str(g.gang), str(g.min_member), str(g.bound), str(g.placed), g.detail) for g in plan.gangs]
        lines += [*aligned(gangs), ""]
    for alike in _alike(plan.unschedulable, every=every):
        verb = "has" if len(alike) == 1 else "have"
        why = f": {alike[0].why}" if alike[0].why else ""
        lines += [f"{pods_named([one.pod for one in alike])} {verb} no place{why}", *_reason_lines(alike[0]), ""]
    return [*lines, _count(plan)]


def _count(plan: "SchedulePlan") -> str:
    return f"{len(plan.placements)} placed, {len(plan.unschedulable)} without a place"


def _pod_rows(placements: "Sequence[PlannedPlacement]") -> list[tuple[str, ...]]:
    return [("POD", "NODE", "GPUS", "ISLANDS", "SCORE"), *map(_pod_row, placements)]


def _pod_row(one: "PlannedPlacement") -> tuple[str, ...]:
    choice, score = one.placement.choice, one.placement.score
    gpus, islands = "-", "-"
    if choice is not None:
        gpus = ",".join(map(str, choice.ids)) or "by count"
        islands = str(choice.islands) if choice.ids else "-"
        if choice.ids and not choice.instances and choice.share_milli != 1000:
            gpus += f" ({choice.share_milli / 10:g} %)"
    return str(one.pod), one.placement.node, gpus, islands, "-" if score is None else str(score)


def _workload_rows(placements: "Sequence[PlannedPlacement]") -> list[tuple[str, ...]]:
    by_workload: dict[str, list[PlannedPlacement]] = {}
    for one in placements:
        by_workload.setdefault(workload_of(one.pod), []).append(one)
    rows: list[tuple[str, ...]] = [("WORKLOAD", "PODS", "GPUS", "NODES")]
    for alike in by_workload.values():
        choices = (one.placement.choice for one in alike)
        gpus = sum(len(choice.ids) * choice.share_milli / 1000 for choice in choices if choice is not None)
        nodes = sorted({one.placement.node for one in alike})
        more = f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else ""
        name = str(alike[0].pod) if len(alike) == 1 else workload_of(alike[0].pod)
        rows.append((name, str(len(alike)), f"{gpus:g}" if gpus else "-", ", ".join(nodes[:_MOST_NODES]) + more))
    return rows


def workload_of(pod: "ObjectKey") -> str:
    """A pod's name without what its controller appended, with a star instead."""
    name = without_generated(pod.name)
    return f"{pod.namespace}/{name}{'-*' if name != pod.name else ''}"


def _alike(pods: "Sequence[UnschedulablePod]", *, every: bool) -> "list[list[UnschedulablePod]]":
    """Pods with the same reasons and the same advice, in the order of the first of each."""
    if every:
        return [[one] for one in pods]
    found: dict[object, list[UnschedulablePod]] = {}
    for one in pods:
        found.setdefault((workload_of(one.pod), one.rejections, one.steps, one.tried_for), []).append(one)
    return list(found.values())


def pods_named(pods: "Sequence[ObjectKey]") -> str:
    """One pod by its name, several of a workload by the workload and their number."""
    return str(pods[0]) if len(pods) == 1 else f"{workload_of(pods[0])} ({len(pods)} pods)"


def _reason_lines(one: "UnschedulablePod") -> list[str]:
    rows = [
        (f"  {why.nodes} {'node' if why.nodes == 1 else 'nodes'}", why.reason.value, _example(why.example, why.detail))
        for why in one.rejections
    ]
    if one.tried_for is None:
        return [*aligned(rows), *(f"  helps: {step}" for step in one.steps)]
    tried = advice_lines(one.steps, one.remedies, prove=True)
    return [*aligned(rows), f"  helps, tried for {one.tried_for}:", *(f"  {line}" for line in tried)]


def _example(node: str, detail: str) -> str:
    return ": ".join(part for part in (node, detail) if part)
