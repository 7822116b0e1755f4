"""Karpenter's packing of pending pods: existing nodes, then planned NodeClaims, then new ones. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ullage.model.karpenter import INSTANCE_TYPE_LABEL, NODE_POOL_LABEL, NodePool
from ullage.model.node import Taint
from ullage.model.pod import Pod
from ullage.model.provisioner import HOST_LABEL, ZONE_LABEL
from ullage.model.resources import GPU, MILLI, Amounts, total
from ullage.model.selector import Operator
from ullage.model.shape_terms import tolerated

WELL_KNOWN = (INSTANCE_TYPE_LABEL, ZONE_LABEL, NODE_POOL_LABEL, "kubernetes.io/arch", "kubernetes.io/os")
PODS = "pods"
ALL_TOO_SMALL = "no instance type has enough resources"
SELECTED_TOO_SMALL = (
    "no instance type which had enough resources and the required offering met the scheduling requirements"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """Instance type of the simulated cloud."""

    name: str
    resources: Mapping[str, int]
    """Resources of an instance, in thousandths."""
    price: float
    zone: str = "zone-a"
    available: bool = True
    """False if the cloud has no capacity. Karpenter learns it only from the launch."""
    joins: bool = True
    """False if the instance never becomes a Node."""
    reports_gpus: bool = True
    """False if the node's device plugin never reports its GPUs."""

    @property
    def without_gpus(self) -> dict[str, int]:
        return {name: amount for name, amount in self.resources.items() if name != GPU}


@dataclass(slots=True)
class Planned:
    """NodeClaim to be created."""

    pool: NodePool
    labels: dict[str, str]
    types: tuple[InstanceType, ...]
    requests: dict[str, int]
    pods: list[Pod] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Room:
    """Existing node or NodeClaim: labels, taints and free resources."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    free: dict[str, int]


@dataclass(slots=True)
class Solution:
    planned: list[Planned] = field(default_factory=list)
    on_existing: dict[str, list[Pod]] = field(default_factory=dict)
    errors: list[tuple[Pod, str]] = field(default_factory=list)


def solve(
    pods: Iterable[Pod], rooms: Sequence[Room], pools: Sequence[NodePool], types: Sequence[InstanceType]
) -> Solution:
    """Pack the pods, those with the largest CPU and memory requests first; GPUs and priority do not count."""
    found = Solution()
    for pod in sorted(pods, key=lambda one: (-_of(one, "cpu"), -_of(one, "memory"), one.created, one.key)):
        needs = total((pod.requests, {PODS: MILLI}))
        home = next((room for room in rooms if _goes_on(pod, needs, room)), None)
        if home is not None:
            for name, amount in needs.items():
                home.free[name] = home.free.get(name, 0) - amount
            found.on_existing.setdefault(home.name, []).append(pod)
        elif not any(_joins(pod, needs, one) for one in found.planned):
            answer = _new(pod, needs, pools, types, found.planned)
            if isinstance(answer, str):
                found.errors.append((pod, answer))
            else:
                found.planned.append(answer)
    return found


def _of(pod: Pod, name: str) -> int:
    return dict(pod.shape.requests).get(name, 0)


def _goes_on(pod: Pod, needs: Amounts, room: Room) -> bool:
    fits = all(room.free.get(name, 0) >= amount for name, amount in needs.items())
    selected = all(room.labels.get(key) == value for key, value in pod.shape.node_selector)
    return fits and selected and all(tolerated(taint, pod.shape.tolerations) for taint in room.taints)


def _joins(pod: Pod, needs: Amounts, planned: Planned) -> bool:
    """Add the pod to a planned node; False if no instance type can hold it too. Types too small are dropped."""
    selector = dict(pod.shape.node_selector)
    if any(planned.labels.get(key) != value for key, value in selector.items() if key not in (INSTANCE_TYPE_LABEL,)):
        return False
    together = total((planned.requests, needs))
    large = tuple(one for one in planned.types if _holds(one, together) and _is_selected(one, selector))
    if not large:
        return False
    planned.types, planned.requests = large, together
    planned.pods.append(pod)
    return True


def _new(
    pod: Pod, needs: dict[str, int], pools: Sequence[NodePool], types: Sequence[InstanceType], planned: list[Planned]
) -> Planned | str:
    errors: list[str] = []
    for pool in sorted(pools, key=lambda one: one.name):
        labels = _labels(pod, pool)
        if isinstance(labels, str):
            errors.append(labels)
            continue
        untolerated = [taint for taint in pool.taints if not tolerated(taint, pod.shape.tolerations)]
        if untolerated:
            errors.append(f"did not tolerate taint {untolerated[0].key} (NodePool={pool.name})")
            continue
        enough = tuple(one for one in types if _holds(one, needs))
        large = tuple(one for one in enough if _is_selected(one, dict(pod.shape.node_selector)))
        if not large:
            errors.append(ALL_TOO_SMALL if not enough else SELECTED_TOO_SMALL)
            continue
        allowed = tuple(one for one in large if _within(one, pool, planned))
        if not allowed:
            errors.append(f"all available instance types exceed limits for nodepool (NodePool={pool.name})")
            continue
        return Planned(pool, labels, allowed, needs, [pod])
    return "; ".join(errors) or "no nodepool is ready"


def _labels(pod: Pod, pool: NodePool) -> dict[str, str] | str:
    """Labels that a node of the pool gets for the pod; a str gives the reason if the pool cannot serve it."""
    labels = {**pool.labels, NODE_POOL_LABEL: pool.name}
    required = {one.key: one for one in pool.requirements}
    for key, value in pod.shape.node_selector:
        if key in labels:
            if labels[key] != value:
                return (
                    f'incompatible requirements, label "{key}" is {labels[key]} and not {value} (NodePool={pool.name})'
                )
        elif key in required:
            one = required[key]
            if one.operator is Operator.IN and value not in one.values:
                return f"incompatible requirements, key {key}, {value} not in {list(one.values)} (NodePool={pool.name})"
            labels[key] = value
        elif key not in WELL_KNOWN and key != HOST_LABEL:
            return f'incompatible requirements, label "{key}" does not have known values (NodePool={pool.name})'
    return labels


def _is_selected(one: InstanceType, selector: Mapping[str, str]) -> bool:
    own = {INSTANCE_TYPE_LABEL: one.name, ZONE_LABEL: one.zone}
    return all(selector[key] == value for key, value in own.items() if key in selector)


def _holds(one: InstanceType, needs: Amounts) -> bool:
    return all(one.resources.get(name, 0) >= amount for name, amount in needs.items())


def _within(one: InstanceType, pool: NodePool, planned: Iterable[Planned]) -> bool:
    """True if the NodePool's limits allow one more instance. Each planned node counts as its largest candidate type."""
    for name, limit in pool.limits.items():
        used = pool.usage.get(name, 0)
        for other in planned:
            if other.pool.name == pool.name:
                used += max(kind.resources.get(name, 0) for kind in other.types)
        if used + one.resources.get(name, 0) > limit:
            return False
    return True
