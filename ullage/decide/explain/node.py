"""Explanation of a node: why it takes nothing, and why it is not removed."""

from collections import Counter

from ullage.decide.draining.inputs import DrainPlan
from ullage.decide.explain.answer import Answer, some
from ullage.decide.placement.devices.freshness import STALE_AFTER
from ullage.decide.placement.obstacle import nearness
from ullage.decide.provisioning.planner import FleetPlan
from ullage.decide.scheduling.assignment import PodAssigner, queue_order, waits
from ullage.model.device import DeviceHealth
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.resources import GPU, MILLI
from ullage.model.units import Instant
from ullage.model.verdict import Reason
from ullage.state.node_columns import awaits_gpus

MOST_ASKED = 64
"""Waiting pods that the node is asked about, at most."""


def explain_node(
    assigner: PodAssigner, name: str, drain: DrainPlan, fleet: FleetPlan | None, *, now: Instant
) -> Answer | None:
    """Explain a node; None if there is no such node. `fleet` has the plan of its pool, if it is of one."""
    node = assigner.snapshot.state.nodes.get(name)
    if node is None:
        return None
    closed = _closed(assigner, node, now)
    asked, fitting = _asked(assigner, node, now)
    verdict, message = closed[0] if closed else ("Open", "nothing keeps pods off it")
    if not closed and asked and not fitting:
        worst = min(asked, key=lambda reason: (nearness(reason), -asked[reason]))
        said = ", ".join(f"{count} {reason.value}" for reason, count in asked.most_common())
        verdict, message = worst.value, f"it takes none of the pods that wait: {said}"
    elif fitting:
        message = f"{message}; it would take {len(fitting)} of the pods that wait: {some(fitting)}"
    steps, commands = _steps(node, closed)
    return Answer(
        about=f"node/{name}",
        verdict=verdict,
        message=message,
        lines=(
            *(text for _, text in closed[1:]),
            _room(assigner, node),
            f"removal: {_removal(node, drain)}",
            *_of_pool(node, fleet),
        ),
        steps=steps,
        commands=commands,
    )


def _closed(assigner: PodAssigner, node: Node, now: Instant) -> list[tuple[str, str]]:
    """Reasons that keep pods off the node, whatever they ask for; the first is reported first."""
    found: list[tuple[str, str]] = []
    if node.starting or awaits_gpus(node):
        what = "it has registered and is not ready yet" if node.starting else "its GPUs have not appeared yet"
        found.append((Reason.NODE_STARTING.value, what))
    elif not node.ready:
        found.append((Reason.NODE_NOT_READY.value, "it was ready and is not any more"))
    if node.unschedulable:
        found.append((Reason.NODE_UNSCHEDULABLE.value, "it is cordoned"))
    report = assigner.snapshot.state.inventories.get(node.name)
    gpus = node.allocatable.get(GPU, 0) // MILLI
    if gpus and report is None:
        found.append((Reason.INVENTORY_MISSING.value, f"nobody reports which GPUs it has; kubelet counts {gpus}"))
    elif report is not None and report.reported_at < now - STALE_AFTER:
        silent = f"its agent reported {now - report.reported_at:.0f} s ago"
        found.append((Reason.INVENTORY_STALE.value, silent))
    if report is not None:
        ill = [str(one.id) for one in report.devices if one.health is not DeviceHealth.HEALTHY]
        if ill:
            found.append((Reason.GPUS_UNHEALTHY.value, f"GPU {','.join(ill)} is not healthy"))
    taints = [taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute")]
    for taint in taints:
        value = f"={taint.value}" if taint.value else ""
        said = f"only pods that tolerate taint {taint.key}{value}:{taint.effect}"
        found.append((Reason.TAINT_NOT_TOLERATED.value, said))
    return found


def _asked(assigner: PodAssigner, node: Node, now: Instant) -> tuple[Counter[Reason], list[str]]:
    """Reasons for which the node refuses pods that wait, and pods that it would take."""
    refused: Counter[Reason] = Counter()
    fitting: list[str] = []
    waiting = [pod for pod in assigner.snapshot.state.pods.values() if waits(pod)]
    for pod in sorted(waiting, key=queue_order)[:MOST_ASKED]:
        ready = assigner.entitled(pod)
        if not isinstance(ready, Pod) or pod.key in assigner.snapshot.pods:
            continue
        answer = assigner.engine.place_on(ready, node.name, now=now)
        if isinstance(answer, Reason):
            refused[answer] += 1
        else:
            fitting.append(str(pod.key))
    return refused, fitting


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
    return f"free: {', '.join(parts)}; {len(pods)} of {slots} pods are on it"


def _removal(node: Node, drain: DrainPlan) -> str:
    for one in drain.removable:
        if one.node == node.name:
            return "it can be removed now: its pods have places elsewhere, and every budget lasts"
    for stays in drain.unremovable:
        if stays.node == node.name:
            about = f" (pod {stays.pod})" if stays.pod is not None else ""
            return f"it stays: {stays.reason.value}{about}{f': {stays.detail}' if stays.detail else ''}"
    return "nothing is known of it"


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


def _steps(node: Node, closed: list[tuple[str, str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    show = [f"kubectl describe node {node.name}", "ullage plan drain"]
    first = closed[0][0] if closed else ""
    advice = {
        Reason.NODE_UNSCHEDULABLE.value: (f"uncordon {node.name}", f"kubectl uncordon {node.name}"),
        Reason.INVENTORY_MISSING.value: (
            f"run the agent on {node.name}",
            f"kubectl label node {node.name} nvidia.com/gpu.present=true && ullage install --apply",
        ),
        Reason.INVENTORY_STALE.value: (
            f"start the agent of {node.name} again",
            f"kubectl get pods -A -l app.kubernetes.io/component=agent --field-selector spec.nodeName={node.name}",
        ),
        Reason.GPUS_UNHEALTHY.value: (
            f"repair the GPUs of {node.name}",
            f"kubectl get gpunodestatus {node.name} -o yaml",
        ),
        Reason.NODE_STARTING.value: ("wait", f"kubectl get node {node.name} -w"),
    }
    if first not in advice:
        return (), tuple(show)
    step, command = advice[first]
    return (step,), (command, *show)
