"""StatefulSets: numbered pods, created in order, deleted in reverse, replaced one by one on a new template. Pure.

Templates are kept as ControllerRevisions, so that a pod of an old revision can be made again while an update runs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.sim.controllers.objects import (
    PODS,
    REVISIONS,
    STATEFUL_SETS,
    ActorPod,
    ControllerRevision,
    StatefulSet,
)
from ullage.sim.controllers.ownership import template_hash
from ullage.sim.controllers.percent import portion
from ullage.sim.controllers.podstate import has_ended, is_available, is_ready, is_terminating, next_availability
from ullage.sim.controllers.statefulset_pod import POD_REVISION, ordinal_of, revision_body, snapshot, stateful_pod
from ullage.sim.controllers.writes import ControllerPlan, Write, delete_exactly, merge_object, merge_status, sparse


@dataclass(frozen=True, slots=True)
class Revisions:
    """The template most pods have, and the one they should have."""

    current: ControllerRevision
    update: ControllerRevision


def plan_stateful_set(
    owner: StatefulSet,
    revisions: Sequence[ControllerRevision],
    pods: Sequence[ActorPod],
    claims: frozenset[str],
    *,
    now: Instant,
) -> ControllerPlan:
    """One step. `pods` and `revisions` are the set's own, `claims` the names of volume claims in its namespace."""
    known = sorted(revisions, key=lambda each: (each.revision, each.metadata.name))
    if write := _missing_revision(owner, known):
        return ControllerPlan((write,))
    chosen = _choose(owner, known)
    steps = () if owner.metadata.deletion_timestamp else tuple(_steps(owner, chosen, pods, claims, now))
    wake_at = next_availability(pods, owner.spec.min_ready_seconds, now)
    old = _surplus_revisions(owner, known, chosen, pods)
    return ControllerPlan((*steps, *_status(owner, chosen, pods, now), *old), wake_at)


def replicas_of(owner: StatefulSet) -> int:
    return 1 if owner.spec.replicas is None else owner.spec.replicas


def _missing_revision(owner: StatefulSet, known: Sequence[ControllerRevision]) -> Write | None:
    """Record the template as the newest revision, unless it is."""
    data = snapshot(owner.spec.template)
    if known and known[-1].data == data:
        return None
    number = known[-1].revision + 1 if known else 1
    again = next((each for each in reversed(known) if each.data == data), None)
    if again is not None:
        return merge_object(REVISIONS, again.metadata, {"revision": number})
    name = f"{owner.metadata.name}-{template_hash(owner.spec.template, owner.status.collision_count)}"
    return revision_body(owner, name, number)


def _choose(owner: StatefulSet, known: Sequence[ControllerRevision]) -> Revisions:
    named = {each.metadata.name: each for each in known}
    return Revisions(named.get(owner.status.current_revision, known[-1]), known[-1])


def _steps(
    owner: StatefulSet, chosen: Revisions, pods: Sequence[ActorPod], claims: frozenset[str], now: Instant
) -> Iterator[Write]:
    """Up in order, then down in reverse order, then update in reverse order; ordered sets wait at each step."""
    first, count = owner.spec.ordinals.start, replicas_of(owner)
    numbered = {ordinal: pod for pod in pods if (ordinal := ordinal_of(owner, pod)) is not None}
    ordered = owner.spec.pod_management_policy != "Parallel"
    blocked = False
    for ordinal in range(first, first + count):
        pod = numbered.get(ordinal)
        if pod is None:
            yield from stateful_pod(owner, _revision_for(owner, chosen, ordinal), ordinal, claims)
            waits = True
        elif has_ended(pod):
            if not is_terminating(pod):
                yield delete_exactly(PODS, pod.metadata)
            waits = True
        else:
            waits = is_terminating(pod) or not _is_available(owner, pod, now)
        blocked = blocked or waits
        if waits and ordered:
            return
    condemned = [numbered[ordinal] for ordinal in sorted(numbered, reverse=True) if not 0 <= ordinal - first < count]
    if condemned:
        yield from _shrink(owner, numbered, condemned, now)
        if ordered or any(not is_terminating(pod) for pod in condemned):
            return
    if not blocked or not ordered:
        yield from _update(owner, chosen, [numbered.get(first + index) for index in range(count)], now)


def _shrink(
    owner: StatefulSet, numbered: dict[int, ActorPod], condemned: Sequence[ActorPod], now: Instant
) -> Iterator[Write]:
    if owner.spec.pod_management_policy == "Parallel":
        yield from (delete_exactly(PODS, pod.metadata) for pod in condemned if not is_terminating(pod))
        return
    highest = condemned[0]
    unwell = [ordinal for ordinal in sorted(numbered) if not _is_available(owner, numbered[ordinal], now)]
    first_unwell = numbered[unwell[0]] if unwell else None
    if not is_terminating(highest) and (_is_available(owner, highest, now) or highest is first_unwell):
        yield delete_exactly(PODS, highest.metadata)


def _update(
    owner: StatefulSet, chosen: Revisions, replicas: Sequence[ActorPod | None], now: Instant
) -> Iterator[Write]:
    """Delete outdated pods from the highest number down, as many at a time as may be unavailable."""
    strategy = owner.spec.update_strategy
    if strategy.get("type") == "OnDelete":
        return
    rolling = strategy.get("rollingUpdate") or {}
    allowed = max(1, portion(rolling.get("maxUnavailable") or 1, len(replicas), round_up=True))
    allowed -= sum(pod is None or is_terminating(pod) or not _is_available(owner, pod, now) for pod in replicas)
    for index in range(len(replicas) - 1, int(rolling.get("partition") or 0) - 1, -1):
        pod = replicas[index]
        if allowed <= 0:
            return
        if pod is not None and not is_terminating(pod) and _revision_name(pod) != chosen.update.metadata.name:
            yield delete_exactly(PODS, pod.metadata)
            allowed -= 1


def _revision_for(owner: StatefulSet, chosen: Revisions, ordinal: int) -> ControllerRevision:
    """Below the partition pods keep the template they had."""
    strategy = owner.spec.update_strategy
    partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
    keeps = strategy.get("type") != "OnDelete" and ordinal < owner.spec.ordinals.start + partition
    return chosen.current if keeps else chosen.update


def _status(owner: StatefulSet, chosen: Revisions, pods: Sequence[ActorPod], now: Instant) -> tuple[Write, ...]:
    present = [pod for pod in pods if ordinal_of(owner, pod) is not None]
    staying = [pod for pod in present if not is_terminating(pod)]
    count = replicas_of(owner)
    ready = sum(pod.status.phase == "Running" and is_ready(pod) for pod in present)
    updated = sum(_revision_name(pod) == chosen.update.metadata.name for pod in staying)
    current = sum(_revision_name(pod) == chosen.current.metadata.name for pod in staying)
    current_name = chosen.current.metadata.name
    if owner.spec.update_strategy.get("type") != "OnDelete" and updated == ready == len(present) == count:
        current, current_name = updated, chosen.update.metadata.name
    wanted: JsonObject = {
        "replicas": len(present),
        "readyReplicas": ready,
        "availableReplicas": sum(_is_available(owner, pod, now) for pod in present),
        "currentReplicas": current,
        "updatedReplicas": updated,
        "currentRevision": current_name,
        "updateRevision": chosen.update.metadata.name,
        "observedGeneration": owner.metadata.generation,
    }
    status = owner.status
    have = (
        status.replicas,
        status.ready_replicas,
        status.available_replicas,
        status.current_replicas,
        status.updated_replicas,
        status.current_revision,
        status.update_revision,
        status.observed_generation,
    )
    return (
        ()
        if have == tuple(wanted.values())
        else (merge_status(STATEFUL_SETS, owner.metadata, sparse(wanted, always=("replicas", "availableReplicas"))),)
    )


def _surplus_revisions(
    owner: StatefulSet, known: Sequence[ControllerRevision], chosen: Revisions, pods: Sequence[ActorPod]
) -> tuple[Write, ...]:
    live = {chosen.current.metadata.name, chosen.update.metadata.name, *map(_revision_name, pods)}
    idle = [each for each in known if each.metadata.name not in live]
    surplus = max(0, len(idle) - owner.spec.revision_history_limit)
    return tuple(delete_exactly(REVISIONS, each.metadata) for each in idle[:surplus])


def _is_available(owner: StatefulSet, pod: ActorPod, now: Instant) -> bool:
    return pod.status.phase == "Running" and is_available(pod, owner.spec.min_ready_seconds, now)


def _revision_name(pod: ActorPod) -> str:
    return pod.metadata.labels.get(POD_REVISION, "")
