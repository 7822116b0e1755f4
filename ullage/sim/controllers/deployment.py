"""Deployments: one ReplicaSet per template, scaled so that old pods give way to new ones. Pure.

Every sync does one kind of step (scale, roll, clean up) and reports the status; the next change of a ReplicaSet wakes
the next step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import REPLICA_SETS
from ullage.kube.objects.workload import KubeWorkload
from ullage.sim.controllers.deployment_scale import (
    DESIRED,
    MAXIMUM,
    Resize,
    RolloutBounds,
    creation_order,
    fenceposts,
    new_size,
    old_sizes,
    proportional_sizes,
)
from ullage.sim.controllers.deployment_status import REVISION, is_complete, status_writes
from ullage.sim.controllers.objects import DEPLOYMENTS, ActorPod, Deployment
from ullage.sim.controllers.ownership import controller_reference, template_hash
from ullage.sim.controllers.podstate import has_ended
from ullage.sim.controllers.replicaset import wanted
from ullage.sim.controllers.writes import (
    ControllerPlan,
    CreateObject,
    MergeObject,
    Write,
    delete_exactly,
    merge_object,
    merge_status,
)

HASH_LABEL = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class ReplicaSetGroup:
    """A Deployment's ReplicaSets: the one of its present template, and those of former ones."""

    new: KubeWorkload | None
    old: tuple[KubeWorkload, ...]

    @property
    def all(self) -> tuple[KubeWorkload, ...]:
        return self.old if self.new is None else (*self.old, self.new)


def family(deployment: Deployment, replica_sets: Sequence[KubeWorkload]) -> ReplicaSetGroup:
    """The oldest ReplicaSet with the present template is the new one; the others are old."""
    template = _without_hash(deployment.spec.template)
    ordered = sorted(replica_sets, key=creation_order)
    new = next((each for each in ordered if _without_hash(each.spec.template) == template), None)
    return ReplicaSetGroup(new, tuple(each for each in ordered if each is not new))


def plan_deployment(
    deployment: Deployment,
    replica_sets: Sequence[KubeWorkload],
    pods: Sequence[ActorPod],
    taken: frozenset[str] = frozenset(),
    *,
    now: Instant,
) -> ControllerPlan:
    """Writes that bring the Deployment one step further.

    `pods` are those of its ReplicaSets; `taken` are names of ReplicaSets in the namespace that are not its own.
    """
    kin = family(deployment, replica_sets)
    posts = fenceposts(deployment)
    if kin.new is None and _new_name(deployment) in taken:
        collided = {"collisionCount": deployment.status.collision_count + 1}
        return ControllerPlan((merge_status(DEPLOYMENTS, deployment.metadata, collided),))
    if deployment.metadata.deletion_timestamp is not None:
        return status_writes(deployment, kin.all, kin.new, posts, now=now)
    if deployment.spec.paused or _is_scaling(deployment, kin):
        steps = _resizes(deployment, posts, proportional_sizes(deployment, kin.new, kin.old, posts))
        if deployment.spec.paused:
            steps += _clean_up(deployment, kin)
    elif deployment.spec.strategy.get("type") == "Recreate":
        steps = _recreate(deployment, kin, pods, posts)
    else:
        steps = _roll(deployment, kin, posts)
    return ControllerPlan(steps).then(status_writes(deployment, kin.all, kin.new, posts, now=now))


def _roll(deployment: Deployment, kin: ReplicaSetGroup, posts: RolloutBounds) -> tuple[Write, ...]:
    if kin.new is None:
        return (_new_replica_set(deployment, kin, new_size(deployment, kin.old, 0, posts)),)
    if fix := _upkeep(deployment, kin, kin.new):
        return fix
    grown = new_size(deployment, kin.all, wanted(kin.new), posts)
    if grown != wanted(kin.new):
        return _resizes(deployment, posts, (Resize(kin.new, grown),))
    shrunk = old_sizes(deployment, kin.new, kin.old, posts)
    if shrunk:
        return _resizes(deployment, posts, shrunk)
    return _clean_up(deployment, kin) if is_complete(deployment) else ()


def _recreate(
    deployment: Deployment, kin: ReplicaSetGroup, pods: Sequence[ActorPod], posts: RolloutBounds
) -> tuple[Write, ...]:
    """All old pods go before the first new one comes."""
    down = tuple(Resize(each, 0) for each in kin.old if wanted(each) > 0)
    if down:
        return _resizes(deployment, posts, down)
    new_uid = kin.new.metadata.uid if kin.new is not None else ""
    if any(each.status.replicas for each in kin.old) or any(
        not has_ended(pod) and all(owner.uid != new_uid for owner in pod.metadata.owner_references) for pod in pods
    ):
        return ()
    if kin.new is None:
        return (_new_replica_set(deployment, kin, _desired(deployment)),)
    if fix := _upkeep(deployment, kin, kin.new):
        return fix
    if wanted(kin.new) != _desired(deployment):
        return _resizes(deployment, posts, (Resize(kin.new, _desired(deployment)),))
    return _clean_up(deployment, kin) if is_complete(deployment) else ()


def _desired(deployment: Deployment) -> int:
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def _is_scaling(deployment: Deployment, kin: ReplicaSetGroup) -> bool:
    """Some ReplicaSet was sized for another number of replicas."""
    for each in kin.all:
        sized_for = each.metadata.annotations.get(DESIRED)
        if wanted(each) > 0 and sized_for is not None and sized_for != str(_desired(deployment)):
            return True
    return False


def _resizes(deployment: Deployment, posts: RolloutBounds, resizes: Sequence[Resize]) -> tuple[Write, ...]:
    notes = {DESIRED: str(_desired(deployment)), MAXIMUM: str(_desired(deployment) + posts.surge)}
    return tuple(
        merge_object(
            REPLICA_SETS,
            resize.replica_set.metadata,
            {"metadata": {"annotations": notes}, "spec": {"replicas": resize.replicas}},
        )
        for resize in resizes
        if resize.replicas != wanted(resize.replica_set)
        or any(resize.replica_set.metadata.annotations.get(key) != value for key, value in notes.items())
    )


def _new_replica_set(deployment: Deployment, kin: ReplicaSetGroup, replicas: int) -> CreateObject:
    name = _hash_of(deployment)
    template = dict(deployment.spec.template)
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), HASH_LABEL: name}
    template["metadata"] = metadata
    posts = fenceposts(deployment)
    body: JsonObject = {
        "metadata": {
            "name": _new_name(deployment),
            "labels": dict(metadata["labels"]),
            "annotations": {
                REVISION: str(_last_revision(kin.old) + 1),
                DESIRED: str(_desired(deployment)),
                MAXIMUM: str(_desired(deployment) + posts.surge),
            },
            "ownerReferences": [controller_reference(DEPLOYMENTS, deployment.metadata)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": _selector_with(deployment, name),
            "template": template,
        },
    }
    return CreateObject(REPLICA_SETS, deployment.metadata.namespace, body)


def _hash_of(deployment: Deployment) -> str:
    return template_hash(_without_hash(deployment.spec.template), deployment.status.collision_count)


def _new_name(deployment: Deployment) -> str:
    return f"{deployment.metadata.name}-{_hash_of(deployment)}"


def _selector_with(deployment: Deployment, name: str) -> JsonObject:
    selector = deployment.spec.selector
    labels = {**(selector.match_labels if selector else {}), HASH_LABEL: name}
    if selector is None or not selector.match_expressions:
        return {"matchLabels": labels}
    expressions = [
        {"key": each.key, "operator": each.operator} | ({"values": list(each.values)} if each.values else {})
        for each in selector.match_expressions
    ]
    return {"matchLabels": labels, "matchExpressions": expressions}


def _upkeep(deployment: Deployment, kin: ReplicaSetGroup, new: KubeWorkload) -> tuple[MergeObject, ...]:
    """A template that came back gets the newest revision; minReadySeconds follows the Deployment's."""
    revision = _revision(new)
    newest = _last_revision(kin.old)
    metadata: JsonObject = {}
    spec: JsonObject = {}
    if revision <= newest:
        metadata = {"annotations": {REVISION: str(newest + 1)}}
    if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
        spec = {"minReadySeconds": deployment.spec.min_ready_seconds}
    if not metadata and not spec:
        return ()
    return (merge_object(REPLICA_SETS, new.metadata, {"metadata": metadata, "spec": spec}),)


def _clean_up(deployment: Deployment, kin: ReplicaSetGroup) -> tuple[Write, ...]:
    """Old empty ReplicaSets beyond the history that is to be kept, oldest revision first."""
    living = sorted((each for each in kin.old if each.metadata.deletion_timestamp is None), key=_revision)
    surplus = max(0, len(living) - deployment.spec.revision_history_limit)
    return tuple(
        delete_exactly(REPLICA_SETS, each.metadata)
        for each in living[:surplus]
        if not wanted(each) and not each.status.replicas and each.metadata.generation <= each.status.observed_generation
    )


def _revision(replica_set: KubeWorkload) -> int:
    text = replica_set.metadata.annotations.get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _last_revision(replica_sets: Sequence[KubeWorkload]) -> int:
    return max(map(_revision, replica_sets), default=0)


def _without_hash(template: JsonObject) -> JsonObject:
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": metadata}
