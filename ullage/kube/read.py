"""Objects on the wire to facts: the only speller of Kubernetes on the way in.

A quantity or time that cannot be read raises `Unreadable` with the object's name, so that one bad object is told
apart from a bad server.
"""

from collections.abc import Iterable

from ullage.errors import Unreadable
from ullage.kube.moment import read_time
from ullage.kube.objects.meta import LabelSelector, ObjectMeta
from ullage.kube.objects.node import Node as KubeNode
from ullage.kube.objects.pod import Container, PodSpec, Quantities
from ullage.kube.objects.pod import Pod as KubePod
from ullage.kube.objects.policy import DisruptionBudget
from ullage.model.budget import Budget
from ullage.model.node import Node, Taint
from ullage.model.event import ObjectKey
from ullage.model.pod import Owner, Phase, Pod
from ullage.model.quantity import milli
from ullage.model.resources import Amounts, at_least, total
from ullage.model.selector import Operator, Requirement, Selector

_POD_LEVEL = ("cpu", "memory")


def amounts(quantities: Quantities) -> dict[str, int]:
    """Quantities in thousandths; zeros are left out, as a request for nothing asks for nothing."""
    read = {name: milli(text) for name, text in quantities.items()}
    return {name: amount for name, amount in read.items() if amount}


def pod_requests(spec: PodSpec) -> dict[str, int]:
    """What a pod needs of a node, as kube-scheduler counts it.

    Containers and sidecars run together; each init container runs beside the sidecars started before it; requests of
    the pod itself replace the sum for cpu, memory and hugepages; overhead comes on top.
    """
    running = total(amounts(container.resources.requests) for container in spec.containers)
    sidecars, peak = _init_phase(spec.init_containers)
    needed = at_least(total((running, sidecars)), peak)
    if spec.resources is not None:
        own = amounts(spec.resources.requests)
        needed |= {n: a for n, a in own.items() if n in _POD_LEVEL or n.startswith("hugepages-")}
    return total((needed, amounts(spec.overhead)))


def _init_phase(containers: Iterable[Container]) -> tuple[dict[str, int], Amounts]:
    """What the sidecars keep, and the most that is held at once while init containers run."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in containers:
        own = amounts(container.resources.requests)
        together = total((sidecars, own))
        peak = at_least(peak, together)
        if container.restart_policy == "Always":
            sidecars = together
    return sidecars, peak


def read_pod(raw: KubePod) -> Pod:
    """A pod's facts."""
    meta, spec = raw.metadata, raw.spec
    try:
        return Pod(
            key=ObjectKey(meta.namespace, meta.name),
            uid=meta.uid,
            created=read_time(meta.creation_timestamp),
            node=spec.node_name,
            phase=Phase(raw.status.phase or "Pending"),
            deleting=meta.deletion_timestamp is not None,
            gated=bool(spec.scheduling_gates),
            scheduler=spec.scheduler_name,
            priority=spec.priority or 0,
            labels=meta.labels,
            requests=pod_requests(spec),
            owner=_controller(meta),
        )
    except ValueError as error:
        raise Unreadable(f"pod {meta.namespace}/{meta.name}: {error}") from error


def _controller(meta: ObjectMeta) -> Owner | None:
    for owner in meta.owner_references:
        if owner.controller:
            return Owner(owner.kind, owner.name, owner.uid)
    return None


def read_node(raw: KubeNode) -> Node:
    """A node's facts. A node that says nothing about being ready is taken as ready: fake nodes have no conditions."""
    meta = raw.metadata
    ready = next((c.status for c in raw.status.conditions if c.type == "Ready"), "True")
    try:
        return Node(
            name=meta.name,
            uid=meta.uid,
            created=read_time(meta.creation_timestamp),
            ready=ready == "True",
            unschedulable=raw.spec.unschedulable,
            labels=meta.labels,
            taints=tuple(Taint(t.key, t.value, t.effect) for t in raw.spec.taints),
            allocatable=amounts(raw.status.allocatable),
        )
    except ValueError as error:
        raise Unreadable(f"node {meta.name}: {error}") from error


def read_selector(selector: LabelSelector | None) -> Selector | None:
    """None selects nothing; an empty selector selects everything."""
    if selector is None:
        return None
    equal = (Requirement(key, Operator.IN, (value,)) for key, value in sorted(selector.match_labels.items()))
    rules = (Requirement(e.key, Operator(e.operator), e.values) for e in selector.match_expressions)
    return Selector((*equal, *rules))


_NOTHING = Selector((Requirement("", Operator.IN),))


def read_budget(raw: DisruptionBudget) -> Budget:
    """A budget's facts."""
    meta, status = raw.metadata, raw.status
    try:
        selector = read_selector(raw.spec.selector)
    except ValueError as error:
        raise Unreadable(f"PodDisruptionBudget {meta.namespace}/{meta.name}: {error}") from error
    return Budget(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        selector=_NOTHING if selector is None else selector,
        current=status.observed_generation >= meta.generation,
        disruptions_allowed=status.disruptions_allowed,
        current_healthy=status.current_healthy,
        desired_healthy=status.desired_healthy,
        evict_unhealthy=raw.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )
