"""A pod on the wire to its shape: everything placement looks at, in one order, so that equal pods read as equal."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ullage.kube.objects.pod import (
    Affinity,
    Container,
    KubePod,
    KubeToleration,
    PodAffinity,
    PodSpec,
    TopologySpreadConstraint,
)
from ullage.kube.read.field_error import within
from ullage.kube.read.requests import (
    held_requests,
    pod_requests,
    resize_refused,
    scored_requests,
    unbounded_containers,
)
from ullage.kube.read.selectors import narrowed, read_node_term, read_node_terms, read_pod_term, read_selector
from ullage.model.fact_event import ObjectKey
from ullage.model.shape import Shape, interned, own_labels
from ullage.model.shape_terms import (
    ANY_ADDRESS,
    ClaimUse,
    HostPort,
    NodeTerm,
    PodTerm,
    SpreadConstraint,
    Toleration,
    WeightedNodeTerm,
    WeightedPodTerm,
)

_ENCODER = msgspec.msgpack.Encoder()

_EQUAL = ("", "Equal")
_EXISTS = "Exists"


_MOST_LIKENESSES = 4096

_read_before: dict[bytes, Shape] = {}
"""Cache of shapes: pods of one workload are written alike."""


def read_shape(raw: KubePod) -> Shape:
    """Read the shape of a pod. Raises ValueError that names the field."""
    if any(volume.ephemeral is not None for volume in raw.spec.volumes):
        return _read(raw)  # its claims carry the pod's own name: no other pod is like it
    likeness = _likeness(raw)
    shape = _read_before.get(likeness)
    if shape is None:
        if len(_read_before) >= _MOST_LIKENESSES:
            _read_before.clear()
        shape = _read_before[likeness] = _read(raw)
    return shape


def _likeness(raw: KubePod) -> bytes:
    """Everything a shape is read from, as bytes: equal for pods that have one shape and are written in one way."""
    meta, spec, status = raw.metadata, raw.spec, raw.status
    looks = spec.affinity is not None or spec.topology_spread_constraints
    mounted = [v for v in spec.volumes if v.persistent_volume_claim is not None or v.image is not None]
    return _ENCODER.encode(
        (
            (spec.containers, spec.init_containers, spec.resources, spec.overhead),
            (spec.node_selector, spec.tolerations, spec.affinity, spec.topology_spread_constraints),
            (mounted, meta.namespace if looks or mounted else "", meta.labels if looks else None),
            (status.container_statuses, status.init_container_statuses, resize_refused(raw))
            if spec.node_name
            else None,
        )
    )


def _read(raw: KubePod) -> Shape:
    meta, spec = raw.metadata, raw.spec
    requests = held_requests(raw) if spec.node_name else pod_requests(spec)
    scored_cpu, scored_memory = scored_requests(spec)
    affinity = spec.affinity or Affinity()
    near, away, preferred_pods = _pod_terms(affinity, meta.namespace, meta.labels)
    spread = tuple(_spread(spec, meta.labels))
    looks = bool(near or away or preferred_pods or spread)
    return interned(
        Shape(
            requests=tuple(sorted(requests.items())),
            scored_cpu=scored_cpu,
            scored_memory=scored_memory,
            node_selector=tuple(sorted(spec.node_selector.items())),
            node_affinity=_required_nodes(affinity),
            preferred_nodes=tuple(_preferred_nodes(affinity)),
            tolerations=_tolerations(spec.tolerations),
            host_ports=_host_ports(spec),
            near=near,
            away=away,
            preferred_pods=preferred_pods,
            spread=spread,
            claims=tuple(_claims(raw)),
            images=tuple(sorted(_images(spec))),
            containers=len(spec.containers) + len(spec.init_containers),
            unbounded=bool(unbounded_containers(spec)),
            namespace=meta.namespace if looks else "",
            labels=own_labels(meta.labels, _keys_looked_at(near, away, preferred_pods, spread)) if looks else (),
        )
    )


def _required_nodes(affinity: Affinity) -> tuple[NodeTerm, ...] | None:
    nodes = affinity.node_affinity
    return None if nodes is None or nodes.required is None else read_node_terms(nodes.required.node_selector_terms)


def _preferred_nodes(affinity: Affinity) -> Iterator[WeightedNodeTerm]:
    for each in affinity.node_affinity.preferred if affinity.node_affinity is not None else ():
        term = read_node_term(each.preference)
        if term is not None and each.weight:
            yield WeightedNodeTerm(weight=each.weight, term=term)


def _tolerations(raw: tuple[KubeToleration, ...]) -> tuple[Toleration, ...]:
    """Those that can tolerate anything: operators that compare numbers are not switched on anywhere."""
    read = {
        Toleration(key=t.key, value=t.value, effect=t.effect, exists=t.operator == _EXISTS)
        for t in raw
        if t.operator == _EXISTS or t.operator in _EQUAL
    }
    return tuple(sorted(read, key=lambda t: (t.key, t.effect, t.value, t.exists)))


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Ports of containers that run as long as the pod does."""
    lasting = (c for c in spec.init_containers if c.restart_policy == "Always")
    read = {
        HostPort(port=port.host_port, protocol=port.protocol or "TCP", address=port.host_ip or ANY_ADDRESS)
        for container in (*lasting, *spec.containers)
        for port in container.ports
        if port.host_port > 0
    }
    return tuple(sorted(read, key=lambda p: (p.port, p.protocol, p.address)))


_Terms = tuple[PodTerm, ...]


def _pod_terms(
    affinity: Affinity, namespace: str, labels: Mapping[str, str]
) -> tuple[_Terms, _Terms, tuple[WeightedPodTerm, ...]]:
    """Required near, required away, and wishes for both."""
    near, wished = _one_side("spec.affinity.podAffinity", affinity.pod_affinity, namespace, labels)
    away, unwished = _one_side("spec.affinity.podAntiAffinity", affinity.pod_anti_affinity, namespace, labels)
    preferred = [WeightedPodTerm(weight=weight, term=term) for weight, term in wished]
    preferred += [WeightedPodTerm(weight=-weight, term=term) for weight, term in unwished]
    return near, away, tuple(preferred)


def _one_side(
    path: str, side: PodAffinity | None, namespace: str, labels: Mapping[str, str]
) -> tuple[_Terms, list[tuple[int, PodTerm]]]:
    if side is None:
        return (), []
    required: list[PodTerm] = []
    for index, term in enumerate(side.required):
        with within(f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]"):
            required.append(read_pod_term(term, namespace, labels))
    preferred: list[tuple[int, PodTerm]] = []
    for index, each in enumerate(side.preferred):
        with within(f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}].podAffinityTerm"):
            preferred.append((each.weight, read_pod_term(each.pod_affinity_term, namespace, labels)))
    return tuple(required), preferred


def _spread(spec: PodSpec, labels: Mapping[str, str]) -> Iterator[SpreadConstraint]:
    for index, each in enumerate(spec.topology_spread_constraints):
        with within(f"spec.topologySpreadConstraints[{index}]"):
            yield _spread_constraint(each, labels)


def _spread_constraint(raw: TopologySpreadConstraint, labels: Mapping[str, str]) -> SpreadConstraint:
    with within("labelSelector"):
        selector = read_selector(raw.label_selector)
    return SpreadConstraint(
        topology_key=raw.topology_key,
        max_skew=raw.max_skew,
        hard=raw.when_unsatisfiable == "DoNotSchedule",
        selector=narrowed(selector, labels, raw.match_label_keys),
        min_domains=1 if raw.min_domains is None else raw.min_domains,
        honors_affinity=raw.node_affinity_policy == "Honor",
        honors_taints=raw.node_taints_policy == "Honor",
    )


def _keys_looked_at(
    near: _Terms, away: _Terms, preferred: Iterable[WeightedPodTerm], spread: Iterable[SpreadConstraint]
) -> Iterator[str]:
    """Labels of the pod itself that its own rules about pods would see."""
    for term in (*near, *away, *(one.term for one in preferred)):
        if term.pods.selector is not None:
            yield from (requirement.key for requirement in term.pods.selector.requirements)
    for constraint in spread:
        if constraint.selector is not None:
            yield from (requirement.key for requirement in constraint.selector.requirements)


def _claims(raw: KubePod) -> Iterator[ClaimUse]:
    meta = raw.metadata
    for volume in raw.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimUse(claim=ObjectKey(meta.namespace, volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            yield ClaimUse(claim=ObjectKey(meta.namespace, f"{meta.name}-{volume.name}"), owner=meta.uid)


def _images(spec: PodSpec) -> Iterator[str]:
    containers: tuple[Container, ...] = (*spec.init_containers, *spec.containers)
    yield from (with_tag(container.image) for container in containers)
    yield from (with_tag(volume.image.reference) for volume in spec.volumes if volume.image is not None)


def with_tag(image: str) -> str:
    """An image without a tag means `latest`."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
