"""Silent nodes: their Ready turns Unknown, NoSchedule taints keep pods away and NoExecute taints evict them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.node import KubeTaint
from ullage.kube.objects.pod import KubeToleration
from ullage.kube.timestamps import write_time
from ullage.sim.controllers.objects import NODES, PODS, ActorNode, ActorPod
from ullage.sim.controllers.podstate import condition_json, condition_of, is_terminating, with_condition
from ullage.sim.controllers.tolerance import tolerates, untolerated
from ullage.sim.controllers.writes import ControllerPlan, MergeObject, Write, delete_exactly, merge_object, merge_status

SILENCE_SECONDS = 50.0
"""Seconds without a sign of life until a node's health is unknown: the default of Kubernetes since 1.32."""
STARTUP_SILENCE_SECONDS = 60.0
"""The same for a node that never reported its health."""
SECONDS_PER_EVICTION = 10.0
"""Nodes of a zone are tainted one by one, so that a mistake does not empty them all."""
SECONDS_PER_EVICTION_IN_TROUBLE = 100.0
"""The same in a large zone most of whose nodes are unhealthy; small zones are then left alone."""
LARGE_ZONE = 50
ILL_SHARE_PERCENT = 55
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_TAINT_OF = {"False": NOT_READY, "Unknown": UNREACHABLE}
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class NodeLastSeen:
    """Instant of a node's last sign of life, and the seconds it may be silent."""

    last: Instant
    patience: float = SILENCE_SECONDS


def is_well(node: ActorNode) -> bool:
    ready = condition_of(node.status.conditions, "Ready")
    return ready is not None and ready.status == "True"


class TaintEviction(Enum):
    """Eviction from an unhealthy node: now, later or never."""

    NOW = "they are driven out"
    LATER = "it is not this node's turn"
    NEVER = "nobody is driven out anywhere: where all nodes are ill, the trouble is not theirs"


def seconds_per_eviction(zone: Sequence[ActorNode]) -> float | None:
    """Seconds between evictions from two nodes of this zone; None if not while so many are unhealthy."""
    ill = sum(not is_well(node) for node in zone)
    if ill == len(zone):
        return SECONDS_PER_EVICTION
    if ill > 2 and ill * 100 >= ILL_SHARE_PERCENT * len(zone):
        return SECONDS_PER_EVICTION_IN_TROUBLE if len(zone) > LARGE_ZONE else None
    return SECONDS_PER_EVICTION


def wants_eviction(node: ActorNode) -> bool:
    """True if the node is unhealthy, and not yet tainted for eviction."""
    ready = condition_of(node.status.conditions, "Ready")
    key = None if ready is None else _TAINT_OF.get(ready.status)
    return key is not None and all((taint.key, taint.effect) != (key, "NoExecute") for taint in node.spec.taints)


def plan_node_health(
    node: ActorNode, last_seen: NodeLastSeen, pods: Sequence[ActorPod], emptying: TaintEviction, *, now: Instant
) -> ControllerPlan:
    """One step: first the conditions, then (with the next change of the node) the taints, then its pods' Ready."""
    ready = condition_of(node.status.conditions, "Ready")
    silent_from = Instant(last_seen.last + (STARTUP_SILENCE_SECONDS if ready is None else last_seen.patience))
    if now >= silent_from and (ready is None or ready.status != "Unknown"):
        return ControllerPlan((_unknown(node, now),))
    wake_at = None if now >= silent_from else silent_from
    status = "Unknown" if ready is None else ready.status
    if ready is None:
        return ControllerPlan((), wake_at)
    taints = _wanted_taints(node, status, emptying, now)
    writes: list[Write] = [] if taints is None else [merge_object(NODES, node.metadata, {"spec": {"taints": taints}})]
    if status != "True":
        writes.extend(_mark_not_ready(pod, now) for pod in pods if _counts_as_ready(pod))
    return ControllerPlan(tuple(writes), wake_at)


def _unknown(node: ActorNode, now: Instant) -> MergeObject:
    conditions = node.status.conditions
    written = {each.type: condition_json(each) for each in conditions}
    for kind in _REPORTED:
        old = condition_of(conditions, kind)
        if old is not None and old.status == "Unknown":
            continue
        reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
        if old is None:
            reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
        written[kind] = {
            "type": kind,
            "status": "Unknown",
            "reason": reason,
            "message": message,
            "lastTransitionTime": write_time(now),
        }
    return merge_status(NODES, node.metadata, {"conditions": list(written.values())})


def _wanted_taints(node: ActorNode, status: str, emptying: TaintEviction, now: Instant) -> list[JsonObject] | None:
    """All taints as they should be; None if they are right. One NoExecute taint replaces another in the same write."""
    key = _TAINT_OF.get(status)
    ours = [taint for taint in node.spec.taints if taint.key in (NOT_READY, UNREACHABLE)]
    others = [taint for taint in node.spec.taints if taint.key not in (NOT_READY, UNREACHABLE)]
    drives_out = emptying is TaintEviction.NOW or any(taint.effect == "NoExecute" for taint in ours)
    effects = ["NoSchedule", "NoExecute"] if drives_out and emptying is not TaintEviction.NEVER else ["NoSchedule"]
    wanted: list[KubeTaint] = []
    for effect in effects if key is not None else ():
        present = [taint for taint in ours if (taint.key, taint.effect) == (key, effect)]
        wanted.append(present[0] if present else KubeTaint(key=key or "", effect=effect, time_added=write_time(now)))
    if all(taint in wanted for taint in ours) and len(ours) == len(wanted):
        return None
    return [_taint_json(taint) for taint in (*others, *wanted)]


def _taint_json(taint: KubeTaint) -> JsonObject:
    body: JsonObject = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        body["value"] = taint.value
    if taint.time_added:
        body["timeAdded"] = taint.time_added
    return body


def _counts_as_ready(pod: ActorPod) -> bool:
    ready = condition_of(pod.status.conditions, "Ready")
    return ready is not None and ready.status == "True"


def _mark_not_ready(pod: ActorPod, now: Instant) -> MergeObject:
    """Set Ready to False: the pod's state is unknown, and it must not count as serving."""
    old = condition_of(pod.status.conditions, "Ready")
    reason = old.reason if old is not None else ""
    fresh = Condition(type="Ready", status="False", reason=reason)
    return merge_status(PODS, pod.metadata, {"conditions": with_condition(pod.status.conditions, fresh, now)})


def plan_taint_eviction(pod: ActorPod, taints: Sequence[KubeTaint], since: Instant, *, now: Instant) -> ControllerPlan:
    """Delete a pod that does not tolerate its node's NoExecute taints, or no longer does, counted from `since`."""
    acute = [taint for taint in taints if taint.effect == "NoExecute"]
    if not acute or is_terminating(pod):
        return ControllerPlan()
    if untolerated(acute, pod.spec.tolerations):
        return ControllerPlan(_evict(pod, now))
    seconds = _tolerated_seconds(acute, pod.spec.tolerations)
    if seconds is None:
        return ControllerPlan()
    due = Instant(since + seconds)
    return ControllerPlan((), due) if due > now else ControllerPlan(_evict(pod, now))


def _tolerated_seconds(taints: Sequence[KubeTaint], tolerations: Sequence[KubeToleration]) -> int | None:
    """Seconds of the shortest toleration that applies; None if it has no limit.

    One toleration counts for each taint: the first that covers it.
    """
    used = [next(each for each in tolerations if tolerates(each, taint)) for taint in taints]
    limits = [each.toleration_seconds for each in used if each.toleration_seconds is not None]
    return max(0, min(limits)) if limits else None


def _evict(pod: ActorPod, now: Instant) -> tuple[Write, ...]:
    condition = Condition(
        type="DisruptionTarget",
        status="True",
        reason="DeletionByTaintManager",
        message="Taint manager: deleting due to NoExecute taint",
    )
    conditions = with_condition(pod.status.conditions, condition, now)
    return (
        merge_status(PODS, pod.metadata, {"conditions": conditions}),
        delete_exactly(PODS, pod.metadata),
    )
