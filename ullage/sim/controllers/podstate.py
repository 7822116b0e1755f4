"""Pod state for controllers: ready, available, active, and the order of deletion. Pure."""

import math
from collections.abc import Iterable, Sequence

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.pod import KubePod
from ullage.kube.timestamps import read_time, write_time
from ullage.sim.controllers.objects import ActorPod

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
ENDED = ("Succeeded", "Failed")
_PHASES = {"Pending": 0, "": 0, "Unknown": 1, "Running": 2}


def condition_of(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of this type."""
    return next((condition for condition in conditions if condition.type == kind), None)


def condition_json(condition: Condition) -> JsonObject:
    """A condition as it was read, to be written back: lists are replaced whole by a merge patch."""
    body: JsonObject = {"type": condition.type, "status": condition.status}
    if condition.reason:
        body["reason"] = condition.reason
    if condition.message:
        body["message"] = condition.message
    if condition.observed_generation:
        body["observedGeneration"] = condition.observed_generation
    if condition.last_transition_time:
        body["lastTransitionTime"] = condition.last_transition_time
    return body


def with_condition(conditions: Sequence[Condition], new: Condition, now: Instant) -> list[JsonObject]:
    """All conditions with `new` in its place; its transition time moves only if its status does."""
    old = condition_of(conditions, new.type)
    same = old is not None and old.status == new.status and old.last_transition_time is not None
    since = old.last_transition_time if same and old is not None else write_time(now)
    fresh = condition_json(new) | {"lastTransitionTime": since}
    result = [fresh if each.type == new.type else condition_json(each) for each in conditions]
    return result if old is not None else [*result, fresh]


def is_ready(pod: KubePod) -> bool:
    condition = condition_of(pod.status.conditions, "Ready")
    return condition is not None and condition.status == "True"


def is_terminating(pod: KubePod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def has_ended(pod: KubePod) -> bool:
    return pod.status.phase in ENDED


def is_active(pod: KubePod) -> bool:
    """True if the pod has neither ended nor is being deleted: it counts towards its controller's replicas."""
    return not has_ended(pod) and not is_terminating(pod)


def ready_since(pod: KubePod) -> Instant | None:
    condition = condition_of(pod.status.conditions, "Ready")
    if condition is None or condition.status != "True" or not condition.last_transition_time:
        return None
    return read_time(condition.last_transition_time)


def available_from(pod: KubePod, min_ready_seconds: int) -> Instant | None:
    """Instant from which a ready pod counts as available."""
    if not is_ready(pod):
        return None
    if min_ready_seconds == 0:
        return Instant(0.0)
    since = ready_since(pod)
    return None if since is None else Instant(since + min_ready_seconds)


def is_available(pod: KubePod, min_ready_seconds: int, now: Instant) -> bool:
    moment = available_from(pod, min_ready_seconds)
    return moment is not None and moment <= now


def next_availability(pods: Iterable[KubePod], min_ready_seconds: int, now: Instant) -> Instant | None:
    """Instant at which the next of these ready pods becomes available."""
    moments = [available_from(pod, min_ready_seconds) for pod in pods]
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def restarts(pod: ActorPod) -> int:
    """Restarts of the pod's most restarted container."""
    return max((status.restart_count for status in pod.status.container_statuses), default=0)


def in_order_of_deletion(pods: Sequence[ActorPod], related: Iterable[KubePod], now: Instant) -> list[ActorPod]:
    """Sort pods, the first to be deleted first.

    Unassigned, then pending, then not ready, then cheap by annotation, then doubled up on a node, then young (ages
    within a factor of two count as equal, and the uid decides), then often restarted.
    """
    crowd: dict[str, int] = {}
    for pod in related:
        if pod.status.phase == "Running" and is_ready(pod) and pod.spec.node_name:
            crowd[pod.spec.node_name] = crowd.get(pod.spec.node_name, 0) + 1

    def rank(pod: ActorPod) -> tuple[object, ...]:
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 0),
            is_ready(pod),
            _deletion_cost(pod),
            -crowd.get(pod.spec.node_name, 0),
            _age_class(ready_since(pod), now),
            -restarts(pod),
            _age_class(read_time(pod.metadata.creation_timestamp), now),
            pod.metadata.uid,
        )

    return sorted(pods, key=rank)


def _deletion_cost(pod: KubePod) -> int:
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _age_class(since: Instant | None, now: Instant) -> int:
    """Ages on a logarithmic scale, so that it is not always the very youngest that is deleted."""
    if since is None:
        return -1
    age = now - since
    return 0 if age <= 1 else int(math.log2(age))
