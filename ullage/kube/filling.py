"""What an API server and its admission fill in, for objects that never met one: requests from limits, priorities,
allocatable from capacity. And what they overlook: numbers where a quantity is text, null where nothing is said."""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from ullage.kube.objects.node import Node
from ullage.kube.objects.pod import Container, Pod, PodSpec, Quantities
from ullage.kube.objects.policy import PriorityClass
from ullage.kube.resource import JsonObject

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


class Priorities:
    """What the PriorityClasses of the cluster say."""

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
        """What a pod says, else what its class says, else the default class."""
        if spec.priority is not None:
            return spec.priority
        if not spec.priority_class_name:
            return self._default
        known = self._values.get(spec.priority_class_name)
        if known is None:
            self._unknown[spec.priority_class_name] = None
        return known or 0


def filled_pod(raw: Pod, priorities: Priorities) -> Pod:
    """A pod as an API server would have stored it, in what placement looks at. One that has a node runs there."""
    spec = raw.spec
    if spec.node_name and not raw.status.phase:
        raw = replace(raw, status=replace(raw.status, phase="Running"))
    containers = tuple(map(_with_requests, spec.containers))
    init_containers = tuple(map(_with_requests, spec.init_containers))
    priority = priorities.of(spec)
    if (containers, init_containers, priority) == (spec.containers, spec.init_containers, spec.priority):
        return raw
    filled = replace(spec, containers=containers, init_containers=init_containers, priority=priority)
    return replace(raw, spec=filled)


def _with_requests(container: Container) -> Container:
    """Who limits what it does not request, requests its limit."""
    limits: Quantities = container.resources.limits
    if limits.keys() <= container.resources.requests.keys():
        return container
    resources = replace(container.resources, requests=limits | container.resources.requests)
    return replace(container, resources=resources)


def filled_node(raw: Node) -> tuple[Node, bool]:
    """A node as its kubelet would have reported it, and whether it said by itself how many pods it takes."""
    room = raw.status.allocatable or raw.status.capacity
    says_pods = "pods" in room
    whole = room if says_pods else room | {"pods": _MOST_PODS}
    return replace(raw, status=replace(raw.status, allocatable=whole)), says_pods
