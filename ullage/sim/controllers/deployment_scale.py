"""Sizes of a Deployment's ReplicaSets: surge, unavailability, proportional scaling. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ullage.kube.objects.workload import KubeWorkload
from ullage.sim.controllers.objects import Deployment
from ullage.sim.controllers.percent import portion
from ullage.sim.controllers.replicaset import wanted

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


@dataclass(frozen=True, slots=True)
class RolloutBounds:
    """Pods a rollout may have beyond the wanted number, and may lack of it."""

    surge: int
    unavailable: int


@dataclass(frozen=True, slots=True)
class Resize:
    """One ReplicaSet's next size."""

    replica_set: KubeWorkload
    replicas: int


def fenceposts(deployment: Deployment) -> RolloutBounds:
    """Percentages of surge round up, of unavailability down. If both are zero, one pod may be missing."""
    if deployment.spec.strategy.get("type") == "Recreate":
        return RolloutBounds(0, 0)
    rolling = deployment.spec.strategy.get("rollingUpdate") or {}
    desired = _desired(deployment)
    surge = portion(rolling.get("maxSurge", "25%"), desired, round_up=True)
    unavailable = portion(rolling.get("maxUnavailable", "25%"), desired, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return RolloutBounds(surge, min(unavailable, desired))


def new_size(deployment: Deployment, everyone: Sequence[KubeWorkload], present: int, posts: RolloutBounds) -> int:
    """Largest size of the new ReplicaSet now, given the sizes of all."""
    desired = _desired(deployment)
    if present >= desired:
        return desired
    room = desired + posts.surge - sum(map(wanted, everyone))
    return present + min(max(room, 0), desired - present)


def old_sizes(
    deployment: Deployment, new: KubeWorkload, old: Sequence[KubeWorkload], posts: RolloutBounds
) -> tuple[Resize, ...]:
    """Sizes of shrinking old ReplicaSets: first by unavailable pods, then by as many as availability allows."""
    sizes = {each.metadata.name: wanted(each) for each in old}
    least = _desired(deployment) - posts.unavailable
    spare = sum(sizes.values()) + wanted(new) - least - (wanted(new) - new.status.available_replicas)
    if sum(sizes.values()) == 0 or spare <= 0:
        return ()
    oldest_first = sorted(old, key=creation_order)
    for each in oldest_first:
        unhealthy = min(spare, max(0, sizes[each.metadata.name] - each.status.available_replicas))
        sizes[each.metadata.name] -= unhealthy
        spare -= unhealthy
    surplus = sum(each.status.available_replicas for each in (*old, new)) - least
    for each in oldest_first:
        step = min(max(surplus, 0), sizes[each.metadata.name])
        sizes[each.metadata.name] -= step
        surplus -= step
    return tuple(
        Resize(each, sizes[each.metadata.name]) for each in oldest_first if sizes[each.metadata.name] != wanted(each)
    )


def proportional_sizes(
    deployment: Deployment, new: KubeWorkload | None, old: Sequence[KubeWorkload], posts: RolloutBounds
) -> tuple[Resize, ...]:
    """Sizes after a change of replicas. During a rollout each ReplicaSet takes its share of the difference."""
    desired = _desired(deployment)
    everyone = (*old, new) if new is not None else tuple(old)
    active = [each for each in everyone if wanted(each) > 0]
    if len(active) <= 1:
        target = active[0] if active else new or (max(old, key=creation_order) if old else None)
        return (Resize(target, desired),) if target is not None else ()
    if new is not None and _is_saturated(new, desired):
        return tuple(Resize(each, 0) for each in active if each is not new)
    if deployment.spec.strategy.get("type") == "Recreate":
        return ()
    return _shares(active, desired, posts, deployment.status.replicas)


def _shares(active: Sequence[KubeWorkload], desired: int, posts: RolloutBounds, fallback: int) -> tuple[Resize, ...]:
    allowed = desired + posts.surge if desired > 0 else 0
    to_add = allowed - sum(map(wanted, active))
    newest_first = sorted(active, key=creation_order, reverse=to_add > 0)
    largest_first = sorted(newest_first, key=wanted, reverse=True)
    sizes: list[int] = []
    added = 0
    for each in largest_first:
        step = _share(each, desired, posts, fallback) if to_add else 0
        left = to_add - added
        step = min(step, left) if to_add > 0 else max(step, left)
        sizes.append(wanted(each) + step)
        added += step
    sizes[0] = max(0, sizes[0] + to_add - added)
    return tuple(Resize(each, size) for each, size in zip(largest_first, sizes, strict=True))


def _share(each: KubeWorkload, desired: int, posts: RolloutBounds, fallback: int) -> int:
    if desired == 0:
        return -wanted(each)
    noted = each.metadata.annotations.get(MAXIMUM, "")
    before = int(noted) if noted.isdigit() and int(noted) > 0 else fallback
    if before == 0:
        return 0
    exact = Fraction(wanted(each) * (desired + posts.surge), before)
    return int(exact + Fraction(1, 2)) - wanted(each)


def _is_saturated(new: KubeWorkload, desired: int) -> bool:
    return (
        wanted(new) == desired
        and new.metadata.annotations.get(DESIRED) == str(desired)
        and new.status.available_replicas == desired
    )


def creation_order(each: KubeWorkload) -> tuple[str, str]:
    """Oldest first, by name among equals."""
    return (each.metadata.creation_timestamp or "", each.metadata.name)


def _desired(deployment: Deployment) -> int:
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas
