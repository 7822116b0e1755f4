"""Deployment status: counts, Available, Progressing. Pure."""

from collections.abc import Sequence

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.workload import KubeWorkload
from ullage.kube.timestamps import read_time, write_time
from ullage.sim.controllers.deployment_scale import RolloutBounds
from ullage.sim.controllers.objects import DEPLOYMENTS, Deployment, DeploymentStatus, ProgressCondition
from ullage.sim.controllers.replicaset import wanted
from ullage.sim.controllers.writes import ControllerPlan, merge_status, sparse

REVISION = "deployment.kubernetes.io/revision"
NO_DEADLINE = 2147483647
"""A progressDeadlineSeconds that means: never give up."""


def is_complete(deployment: Deployment, status: DeploymentStatus | None = None) -> bool:
    """All pods are of the new template and available, and nothing newer was asked for."""
    seen = status or deployment.status
    desired = 1 if deployment.spec.replicas is None else deployment.spec.replicas
    return (
        seen.updated_replicas == seen.replicas == seen.available_replicas == desired
        and seen.observed_generation >= deployment.metadata.generation
    )


def status_writes(
    deployment: Deployment,
    replica_sets: Sequence[KubeWorkload],
    new: KubeWorkload | None,
    posts: RolloutBounds,
    *,
    now: Instant,
) -> ControllerPlan:
    """The status as it follows from the ReplicaSets, written only where it differs."""
    counts = _counts(deployment, replica_sets, new)
    old = {condition.type: condition for condition in deployment.status.conditions}
    conditions = dict(old)
    conditions["Available"] = _available(deployment, counts, posts, old.get("Available"), now)
    progressing = _progressing(deployment, counts, new, old.get("Progressing"), now)
    if progressing is not None:
        conditions["Progressing"] = progressing
    else:
        conditions.pop("Progressing", None)
    wake_at = _deadline(deployment, progressing, counts)
    after = DeploymentStatus(
        replicas=counts.replicas,
        ready_replicas=counts.ready_replicas,
        available_replicas=counts.available_replicas,
        unavailable_replicas=counts.unavailable_replicas,
        updated_replicas=counts.updated_replicas,
        observed_generation=counts.observed_generation,
        collision_count=deployment.status.collision_count,
        conditions=tuple(conditions.values()),
    )
    revision = new.metadata.annotations.get(REVISION) if new is not None else None
    noted = revision is None or deployment.metadata.annotations.get(REVISION) == revision
    if after == deployment.status and noted:
        return ControllerPlan((), wake_at)
    write = merge_status(DEPLOYMENTS, deployment.metadata, sparse(_json(after)))
    if not noted:
        write.body["metadata"]["annotations"] = {REVISION: revision}
    return ControllerPlan((write,), wake_at)


def _counts(deployment: Deployment, replica_sets: Sequence[KubeWorkload], new: KubeWorkload | None) -> DeploymentStatus:
    available = sum(each.status.available_replicas for each in replica_sets)
    return DeploymentStatus(
        replicas=sum(each.status.replicas for each in replica_sets),
        ready_replicas=sum(each.status.ready_replicas for each in replica_sets),
        available_replicas=available,
        unavailable_replicas=max(0, sum(map(wanted, replica_sets)) - available),
        updated_replicas=new.status.replicas if new is not None else 0,
        observed_generation=deployment.metadata.generation,
    )


def _available(
    deployment: Deployment,
    counts: DeploymentStatus,
    posts: RolloutBounds,
    old: ProgressCondition | None,
    now: Instant,
) -> ProgressCondition:
    desired = 1 if deployment.spec.replicas is None else deployment.spec.replicas
    if counts.available_replicas >= desired - posts.unavailable:
        fresh = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        fresh = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    return _updated("Available", fresh, old, now)


def _progressing(
    deployment: Deployment,
    counts: DeploymentStatus,
    new: KubeWorkload | None,
    old: ProgressCondition | None,
    now: Instant,
) -> ProgressCondition | None:
    if deployment.spec.progress_deadline_seconds == NO_DEADLINE:
        return None
    if deployment.spec.paused:
        return _paused(old, now)
    subject = f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
    if counts.replicas == counts.updated_replicas and old is not None and old.reason == "NewReplicaSetAvailable":
        return old
    if is_complete(deployment, counts):
        fresh = ("True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.")
        return _updated("Progressing", fresh, old, now)
    if _has_progressed(deployment.status, counts) or old is None or old.reason == "DeploymentPaused":
        fresh = ("True", "ReplicaSetUpdated", f"{subject} is progressing.")
        return _updated("Progressing", fresh, old, now, refresh=True)
    if old.reason == "NewReplicaSetAvailable" and counts.observed_generation > deployment.status.observed_generation:
        fresh = ("True", "ReplicaSetUpdated", f"{subject} is progressing.")
        return _updated("Progressing", fresh, old, now, refresh=True)
    if _timed_out(deployment, old, now):
        fresh = ("False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.")
        return _updated("Progressing", fresh, old, now)
    return old


def _paused(old: ProgressCondition | None, now: Instant) -> ProgressCondition:
    if old is not None and old.reason == "ProgressDeadlineExceeded":
        return old
    return _updated("Progressing", ("Unknown", "DeploymentPaused", "Deployment is paused"), old, now)


def _has_progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def _timed_out(deployment: Deployment, old: ProgressCondition, now: Instant) -> bool:
    if old.reason in ("NewReplicaSetAvailable", "ProgressDeadlineExceeded"):
        return old.reason == "ProgressDeadlineExceeded"
    return read_time(old.last_update_time) + deployment.spec.progress_deadline_seconds < now


def _deadline(deployment: Deployment, condition: ProgressCondition | None, counts: DeploymentStatus) -> Instant | None:
    """Instant at which a rollout without progress has exceeded its deadline."""
    if condition is None or is_complete(deployment, counts) or condition.reason != "ReplicaSetUpdated":
        return None
    since = read_time(condition.last_update_time)
    return Instant(since + deployment.spec.progress_deadline_seconds + 1)


def _updated(
    kind: str,
    fresh: tuple[str, str, str],
    old: ProgressCondition | None,
    now: Instant,
    *,
    refresh: bool = False,
) -> ProgressCondition:
    """The condition; unchanged if status and reason are, unless its update time is to move."""
    status, reason, message = fresh
    if old is not None and (old.status, old.reason) == (status, reason) and not refresh:
        return old
    since = old.last_transition_time if old is not None and old.status == status else write_time(now)
    return ProgressCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_update_time=write_time(now),
        last_transition_time=since,
    )


def _json(status: DeploymentStatus) -> JsonObject:
    return {
        "replicas": status.replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "unavailableReplicas": status.unavailable_replicas,
        "updatedReplicas": status.updated_replicas,
        "observedGeneration": status.observed_generation,
        "conditions": [
            {
                "type": each.type,
                "status": each.status,
                "reason": each.reason,
                "message": each.message,
                "lastUpdateTime": each.last_update_time,
                "lastTransitionTime": each.last_transition_time,
            }
            for each in status.conditions
        ],
    }
