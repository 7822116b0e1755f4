"""ReplicaSets: as many active pods as asked for. Pure."""

from collections.abc import Iterable, Sequence

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import REPLICA_SETS
from ullage.kube.objects.workload import KubeWorkload
from ullage.kube.timestamps import write_time
from ullage.sim.controllers.objects import PODS, ActorPod
from ullage.sim.controllers.ownership import controller_reference, pod_from_template
from ullage.sim.controllers.podstate import (
    condition_json,
    in_order_of_deletion,
    is_active,
    is_available,
    is_ready,
    next_availability,
)
from ullage.sim.controllers.writes import (
    NOTHING,
    ControllerPlan,
    CreateObject,
    Write,
    delete_exactly,
    merge_status,
    sparse,
)

BURST = 500
"""Most pods created or deleted in one reconcile."""


def wanted(workload: KubeWorkload) -> int:
    """Replicas asked for; the API server's default is one."""
    return 1 if workload.spec.replicas is None else workload.spec.replicas


def manage_replicas(
    owner: KubeWorkload, pods: Sequence[ActorPod], related: Iterable[ActorPod], *, now: Instant
) -> tuple[Write, ...]:
    """Create missing pods, delete surplus ones. `pods` are the set's own; `related` includes its siblings'."""
    if owner.metadata.deletion_timestamp is not None:
        return ()
    active = [pod for pod in pods if is_active(pod)]
    missing = wanted(owner) - len(active)
    if missing > 0:
        reference = controller_reference(REPLICA_SETS, owner.metadata)
        body = pod_from_template(owner.spec.template, reference, generate_name=f"{owner.metadata.name}-")
        return (CreateObject(PODS, owner.metadata.namespace, body),) * min(missing, BURST)
    ranked = in_order_of_deletion(active, related, now) if missing < 0 else []
    return tuple(delete_exactly(PODS, pod.metadata) for pod in ranked[: min(-missing, BURST)])


def replica_status(owner: KubeWorkload, pods: Sequence[ActorPod], failure: str = "", *, now: Instant) -> ControllerPlan:
    """The counts, written only where they differ; `failure` is the reason that the replicas could not be managed."""
    active = [pod for pod in pods if is_active(pod)]
    labels = (owner.spec.template.get("metadata") or {}).get("labels") or {}
    wake_at = next_availability(active, owner.spec.min_ready_seconds, now)
    counts = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(labels.items() <= pod.metadata.labels.items() for pod in active),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(is_available(pod, owner.spec.min_ready_seconds, now) for pod in active),
    }
    failed = any(condition.type == "ReplicaFailure" for condition in owner.status.conditions)
    status = owner.status
    have = (status.replicas, status.fully_labeled_replicas, status.ready_replicas, status.available_replicas)
    if (
        have == tuple(counts.values())
        and status.observed_generation == owner.metadata.generation
        and failed == bool(failure)
    ):
        return ControllerPlan(NOTHING.writes, wake_at)
    body = sparse({**counts, "observedGeneration": owner.metadata.generation}, always=("replicas",))
    if failed != bool(failure):
        body["conditions"] = _conditions(owner, failure, len(active), now)
    return ControllerPlan((merge_status(REPLICA_SETS, owner.metadata, body),), wake_at)


def _conditions(owner: KubeWorkload, failure: str, active: int, now: Instant) -> list[JsonObject] | None:
    kept = [condition_json(each) for each in owner.status.conditions if each.type != "ReplicaFailure"]
    if failure:
        reason = "FailedCreate" if active < wanted(owner) else "FailedDelete"
        kept.append(
            {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": reason,
                "message": failure,
                "lastTransitionTime": write_time(now),
            }
        )
    return kept or None
