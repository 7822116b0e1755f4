"""Explanation of a node: why it takes nothing, and why it is not removed."""

from ullage.decide.draining.inputs import DrainPlan
from ullage.decide.explain.answer import Answer, some
from ullage.decide.explain.drain_trial import DrainTrials
from ullage.decide.explain.planning import PlanInputs
from ullage.decide.explain.pod import explain_pod
from ullage.decide.explain.proof import ProvedRemedy
from ullage.decide.explain.provisioner import planned_fleet
from ullage.decide.explain.remedies_of_opening import Asked, ask, closed, keeping_off, only_claims, opening_remedy
from ullage.decide.explain.remedies_of_removal import removal_remedy
from ullage.decide.placement.obstacle import nearness
from ullage.decide.provisioning.planner import FleetPlan
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.device import DeviceHealth
from ullage.model.draining import UnremovableReason
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.resources import GPU, MILLI
from ullage.model.verdict import Reason
from ullage.state.snapshot import ClusterSnapshot

_LEFT_ALONE = (UnremovableReason.NOT_A_CANDIDATE, UnremovableReason.BEING_REMOVED)
"""Nodes that nobody is to remove, and those that go already."""


def explain_node(
    snapshot: ClusterSnapshot,
    name: str,
    known: PlanInputs,
    drains: DrainTrials,
    *,
    every: bool,
) -> Answer | None:
    """Explain a node; None if there is no such node.

    With `every` steps that were tried and did not help are told, too.
    """
    node, now = snapshot.state.nodes.get(name), drains.now
    if node is None:
        return None
    assigner = PodAssigner(snapshot, unreadable_claims=known.unreadable_claims)
    fleet = planned_fleet(snapshot, known.pools, known, now=now) if known.pools else None
    shut, asked = closed(assigner, node, now), ask(assigner, node, now)
    taints = [_about(taint.key, taint.value, taint.effect) for taint in keeping_off(node) if not only_claims(taint)]
    barred = [one for one in shut if one[0] is not Reason.GPUS_UNHEALTHY or not _some_healthy(snapshot, name)]
    verdict, message, example = _verdict(barred, asked, taints)
    drain = drains.plan(snapshot, known.pools)
    found: list[ProvedRemedy | None] = []
    if shut:
        found.append(opening_remedy(assigner, node, known, now=now))
    if example is not None:
        said = explain_pod(snapshot, snapshot.state.pods[example], known, now=now, every=every)
        found += [one for one in said.remedies if one.proof.node == name]
    if _may_go(name, drain):
        found.append(removal_remedy(snapshot, name, known.pools, drains))
    remedies = tuple(one for one in found if one is not None and (every or one.proof.works))
    asks = () if example is None else (f"ullage explain pod/{example} --prove",)
    return Answer(
        about=f"node/{name}",
        verdict=verdict,
        message=message,
        lines=(
            *(text for _, text in shut if text != message),
            *(text for text in taints if text != message),
            *("pods need a GpuClaim to be placed on it" for one in keeping_off(node) if only_claims(one)),
            _room(assigner, node),
            f"removal: {_removal(node, drain, drains.plan(snapshot, known.pools, among=(name,)))}",
            *_of_pool(node, fleet),
        ),
        steps=tuple(one.remedy.sentence for one in remedies),
        remedies=remedies,
        commands=(*asks, f"kubectl describe node {name}", "ullage plan drain"),
    )


def _some_healthy(snapshot: ClusterSnapshot, name: str) -> bool:
    """True if the node has GPUs left to give: those that are ill close no node."""
    report = snapshot.state.inventories.get(name)
    return report is not None and any(one.health is DeviceHealth.HEALTHY for one in report.devices)


def _verdict(shut: list[tuple[Reason, str]], asked: Asked, taints: list[str]) -> tuple[str, str, ObjectKey | None]:
    """Word and sentence on what the node takes, and a pod that it refuses, where it refuses all that wait."""
    fitting, counts = asked.fitting, asked.counts
    if shut:
        return shut[0][0].value, shut[0][1], None
    if fitting:
        said = f"nothing keeps pods off it; it would take {len(fitting)} of the pods that wait: {some(list(fitting))}"
        return "Open", said, None
    if counts:
        worst = min(counts, key=lambda reason: (nearness(reason), -counts[reason]))
        said = ", ".join(f"{count} {reason.value}" for reason, count in counts.most_common())
        example = next(pod for pod, reason in asked.refused.items() if reason is worst)
        return worst.value, f"it takes none of the pods that wait: {said}", example
    if taints:
        return Reason.TAINT_NOT_TOLERATED.value, taints[0], None
    return "Open", "nothing keeps pods off it, and no pod waits that it could take", None


def _about(key: str, value: str, effect: str) -> str:
    return f"only pods that tolerate taint {key}{f'={value}' if value else ''}:{effect}"


def _may_go(name: str, drain: DrainPlan) -> bool:
    """True if the node could be removed after some steps, as far as the plan of all nodes says."""
    return not any(one.node == name and one.reason in _LEFT_ALONE for one in drain.unremovable)


def _room(assigner: PodAssigner, node: Node) -> str:
    columns = assigner.snapshot.columns
    row, parts = columns.rows[node.name], list[str]()
    for name, unit in (("cpu", 1000), ("memory", 1000 << 30), (GPU, MILLI)):
        offered, used = (columns.allocatable[columns.resource(name), row], columns.used[columns.resource(name), row])
        if offered:
            measure = "GiB of memory" if name == "memory" else name
            parts.append(f"{(offered - used) / unit:.4g} of {offered / unit:.4g} {measure}")
    pods = assigner.snapshot.pods_on(node.name)
    slots = node.allocatable.get("pods", 0) // MILLI
    return f"free: {', '.join(parts)}; pods on it: {len(pods)} of {slots}"


def _removal(node: Node, drain: DrainPlan, alone: DrainPlan) -> str:
    """Sentence on the removal of a node, by the plans in which all nodes may go and in which it may go alone."""
    stays = next((one for one in drain.unremovable if one.node == node.name), None)
    goes = next((one for one in drain.removable if one.node == node.name), None)
    if goes is not None and goes.waits_for:
        waited = some([str(pod) for pod in goes.waits_for])
        return f"it stays: {UnremovableReason.WAITS_FOR_COMPLETION.value}: it can be removed when {waited} is over"
    if stays is None:
        return "it can be removed now: its pods have places elsewhere, and every budget lasts"
    about = f" (pod {stays.pod})" if stays.pod is not None else ""
    said = f"it stays: {stays.reason.value}{about}{f': {stays.detail}' if stays.detail else ''}"
    if _may_go(node.name, drain) and any(one.node == node.name for one in alone.removable):
        return f"it could be removed alone, and other nodes go before it; beside them {said}"
    return said


def _of_pool(node: Node, fleet: FleetPlan | None) -> tuple[str, ...]:
    pool = node.labels.get(PROVISIONER_LABEL, "")
    if not pool:
        return ("it belongs to no NodeProvisioner: nobody removes it but its owner",)
    if fleet is None or pool not in fleet.pools:
        return (f"its NodeProvisioner {pool} is not there",)
    plan = fleet.pools[pool]
    said = [f"NodeProvisioner {pool}: {plan.evaluation.why}"]
    if plan.provisioner.consolidation.drains:
        said.append("it is drained once it has been unneeded for long enough (spec.consolidation)")
    mine = next((one for one in plan.nodes if one.name == node.name), None)
    if mine is not None and mine.delete_after is not None:
        said.append("it is marked for removal")
    return tuple(said)
