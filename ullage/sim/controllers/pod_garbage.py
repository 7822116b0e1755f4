"""Pods that no kubelet will finish: their node is gone or out of service, or they ended long ago. Pure."""

from collections.abc import Sequence

from ullage.clock import Instant
from ullage.kube.objects.meta import Condition
from ullage.kube.timestamps import read_time
from ullage.sim.controllers.objects import PODS, ActorNode, ActorPod
from ullage.sim.controllers.podstate import condition_of, has_ended, is_terminating, with_condition
from ullage.sim.controllers.writes import ControllerPlan, MergeObject, Write, delete_exactly

QUARANTINE_SECONDS = 40.0
"""Seconds a node must be missing: its observation may only be late."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


def collect_pod(
    pod: ActorPod, node: ActorNode | None, missing_since: Instant | None, *, now: Instant
) -> ControllerPlan:
    """One pod and its node; `missing_since` is when the node was first found missing."""
    if not pod.spec.node_name:
        return ControllerPlan(_remove(pod, None, now)) if is_terminating(pod) else ControllerPlan()
    if node is None:
        since = now if missing_since is None else missing_since
        due = Instant(since + QUARANTINE_SECONDS)
        return ControllerPlan((), due) if due > now else ControllerPlan(_remove(pod, _NODE_GONE, now))
    if is_terminating(pod) and _is_out_of_service(node):
        return ControllerPlan(_remove(pod, None, now))
    return ControllerPlan()


def over_threshold(pods: Sequence[ActorPod], threshold: int, *, now: Instant) -> tuple[Write, ...]:
    """Ended pods beyond the number that is kept: evicted ones first, then the oldest."""
    ended = [pod for pod in pods if has_ended(pod) and not is_terminating(pod)]
    surplus = max(0, len(ended) - threshold)
    ended.sort(key=_by_age)
    return tuple(write for pod in ended[:surplus] for write in _remove(pod, None, now))


_NODE_GONE = Condition(
    type="DisruptionTarget", status="True", reason="DeletionByPodGC", message="PodGC: node no longer exists"
)


def _by_age(pod: ActorPod) -> tuple[bool, Instant, str, str]:
    meta = pod.metadata
    return (pod.status.reason != "Evicted", read_time(meta.creation_timestamp), meta.namespace, meta.name)


def _remove(pod: ActorPod, condition: Condition | None, now: Instant) -> tuple[Write, ...]:
    """Set phase Failed first, so that controllers count the pod; then delete it without waiting for a kubelet."""
    deletion = delete_exactly(PODS, pod.metadata, grace_seconds=0)
    if has_ended(pod):
        return (deletion,)
    status: dict[str, object] = {"phase": "Failed"}
    if condition is not None:
        status["conditions"] = with_condition(pod.status.conditions, condition, now)
    # Unconditional but for the uid: no kubelet is left to race with.
    body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
    return (MergeObject(PODS, pod.metadata.namespace, pod.metadata.name, body, "status"), deletion)


def _is_out_of_service(node: ActorNode) -> bool:
    ready = condition_of(node.status.conditions, "Ready")
    is_ready = ready is not None and ready.status == "True"
    return not is_ready and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)
