"""Defaults that an API server and its admission fill in, for objects read from files: requests from limits, host
ports, priorities, allocatable from capacity. Also leniencies of an API server: numbers where a quantity is text, null
where a field is not set."""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.node import KubeNode
from ullage.kube.objects.pod import Container, KubePod, PodSpec, Quantities
from ullage.kube.objects.policy import PriorityClass
from ullage.kube.read.requests import is_pod_level

T = TypeVar("T", bound=msgspec.Struct)

_MOST_PODS = "110"
_QUANTITIES = frozenset({"requests", "limits", "overhead", "allocatable", "capacity", "allocatedResources"})

SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Every cluster has these classes."""


def lenient(body: JsonObject, kind: type[T]) -> T:
    """An object as a struct. Raises msgspec.ValidationError for what an API server would not take either."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError:
        return msgspec.convert(_relaxed(body), kind)


def _relaxed(value: Any, *, quantity: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            name: _relaxed(inner, quantity=quantity or name in _QUANTITIES)
            for name, inner in value.items()
            if inner is not None
        }
    if isinstance(value, list):
        return [_relaxed(inner) for inner in value]
    if quantity and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


class PriorityClasses:
    """Priorities by name of PriorityClass: those of the cluster, and the two of the system."""

    def __init__(self, classes: Iterable[PriorityClass]) -> None:
        listed = list(classes)
        self._values = SYSTEM_PRIORITIES | {one.metadata.name: one.value for one in listed}
        defaults = [one.value for one in listed if one.global_default]
        self._default = min(defaults, default=0)
        self._unknown: dict[str, None] = {}

    @property
    def unknown(self) -> list[str]:
        """Classes that were asked for and are not there."""
        return list(self._unknown)

    def of(self, spec: PodSpec) -> int:
        """Return the priority of a pod: its own, else that of its class, else that of the default class."""
        if spec.priority is not None:
            return spec.priority
        if not spec.priority_class_name:
            return self._default
        known = self._values.get(spec.priority_class_name)
        if known is None:
            self._unknown[spec.priority_class_name] = None
        return known or 0


def filled_pod(raw: KubePod, priorities: PriorityClasses) -> KubePod:
    """A pod as an API server would have stored it, in what placement looks at. One that has a node runs there."""
    spec = raw.spec
    if spec.node_name and not raw.status.phase:
        raw = replace(raw, status=replace(raw.status, phase="Running"))
    filled = replace(
        spec,
        containers=tuple(_filled_container(one, spec) for one in spec.containers),
        init_containers=tuple(_filled_container(one, spec) for one in spec.init_containers),
        priority=priorities.of(spec),
    )
    filled = _with_pod_requests(filled)
    return raw if filled == spec else replace(raw, spec=filled)


def _filled_container(container: Container, spec: PodSpec) -> Container:
    """Fill in requests from limits; with hostNetwork, also host ports, as every port is one of the host."""
    limits: Quantities = container.resources.limits
    if not limits.keys() <= container.resources.requests.keys():
        resources = replace(container.resources, requests=limits | container.resources.requests)
        container = replace(container, resources=resources)
    if spec.host_network and any(not port.host_port for port in container.ports):
        ports = tuple(replace(port, host_port=port.host_port or port.container_port) for port in container.ports)
        container = replace(container, ports=ports)
    return container


def _with_pod_requests(spec: PodSpec) -> PodSpec:
    """A limit of the whole pod is its request where neither the pod nor a container says one."""
    if spec.resources is None:
        return spec
    said = {name for one in (*spec.containers, *spec.init_containers) for name in one.resources.requests}
    limits = {name: amount for name, amount in spec.resources.limits.items() if is_pod_level(name) and name not in said}
    if limits.keys() <= spec.resources.requests.keys():
        return spec
    return replace(spec, resources=replace(spec.resources, requests=limits | spec.resources.requests))


def filled_node(raw: KubeNode) -> tuple[KubeNode, bool]:
    """Return a node as its kubelet would have reported it, and True if it set its number of pods itself."""
    room = raw.status.allocatable or raw.status.capacity
    says_pods = "pods" in room
    whole = room if says_pods else room | {"pods": _MOST_PODS}
    return replace(raw, status=replace(raw.status, allocatable=whole)), says_pods
