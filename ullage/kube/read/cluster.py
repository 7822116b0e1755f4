"""Nodes, namespaces and disruption budgets."""

from functools import lru_cache

from ullage.errors import Unreadable
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.node import KubeNode
from ullage.kube.objects.policy import KubeNamespace, KubePodDisruptionBudget
from ullage.kube.read.field_error import within
from ullage.kube.read.requests import amounts
from ullage.kube.read.selectors import read_selector
from ullage.kube.timestamps import read_time
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.fact_event import ObjectKey
from ullage.model.namespace import Namespace, labels_of_unheard
from ullage.model.node import Node, Taint
from ullage.model.provisioner import is_kept
from ullage.model.selector import Operator, Requirement, Selector

REGISTERS_WITHIN = 5.0
"""Seconds between the creation of a Node and its first conditions: kubelet writes both, one after the other."""

_NOTHING = Selector((Requirement("", Operator.IN),))


def read_node(raw: KubeNode) -> Node:
    """A node's facts. A node that says nothing about being ready is taken as ready: fake nodes have no conditions."""
    meta = raw.metadata
    ready = next((c for c in raw.status.conditions if c.type == "Ready"), None)
    is_ready = ready is None or ready.status == "True"
    try:
        with within("metadata.creationTimestamp"):
            created = read_time(meta.creation_timestamp)
        with within("status.allocatable"):
            allocatable = amounts(raw.status.allocatable)
    except ValueError as error:
        raise Unreadable(f"node {meta.name}: {error}") from error
    return Node(
        name=meta.name,
        uid=meta.uid,
        created=created,
        ready=is_ready,
        unschedulable=raw.spec.unschedulable,
        labels=meta.labels,
        taints=tuple(Taint(t.key, t.value, t.effect) for t in raw.spec.taints),
        allocatable=allocatable,
        images=tuple(sorted(_image(name, image.size_bytes) for image in raw.status.images for name in image.names)),
        kept=is_kept(meta.annotations),
        provider_id=raw.spec.provider_id,
        starting=not is_ready and ready is not None and _never_changed(ready, created),
    )


def _never_changed(ready: Condition, created: float) -> bool:
    """True if the condition is as it was when the node registered. One that says nothing of that may be old."""
    try:
        return bool(created) and abs(read_time(ready.last_transition_time) - created) <= REGISTERS_WITHIN
    except ValueError:
        return False


@lru_cache(maxsize=8192)  # most nodes have the same images: one pair for all of them
def _image(name: str, size: int) -> tuple[str, int]:
    return name, size


def read_namespace(raw: KubeNamespace) -> Namespace:
    """A namespace's facts, with the label the API server gives to all of them."""
    name = raw.metadata.name
    return Namespace(name=name, labels=labels_of_unheard(name) | raw.metadata.labels)


def read_budget(raw: KubePodDisruptionBudget) -> PodDisruptionBudget:
    """A budget's facts."""
    meta, status = raw.metadata, raw.status
    try:
        with within("spec.selector"):
            selector = read_selector(raw.spec.selector)
    except ValueError as error:
        raise Unreadable(f"PodDisruptionBudget {meta.namespace}/{meta.name}: {error}") from error
    return PodDisruptionBudget(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        selector=_NOTHING if selector is None else selector,
        current=status.observed_generation >= meta.generation,
        disruptions_allowed=status.disruptions_allowed,
        current_healthy=status.current_healthy,
        desired_healthy=status.desired_healthy,
        evict_unhealthy=raw.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )
