"""Resource requests of a pod, as kube-scheduler counts them."""

from collections.abc import Callable, Iterable, Mapping

from ullage.kube.objects.pod import Container, ContainerStatus, KubePod, PodSpec, Quantities
from ullage.kube.read.field_error import within
from ullage.model.quantity import milli
from ullage.model.resources import Amounts, at_least, total

_POD_LEVEL = ("cpu", "memory")
_LEAST_SCORED = {"cpu": milli("100m"), "memory": milli("200Mi")}

OwnRequests = Callable[[Container], dict[str, int]]
"""Function that returns the requests of one container, in thousandths."""


def is_pod_level(name: str) -> bool:
    """True if the resource can be requested and limited for a pod as a whole."""
    return name in _POD_LEVEL or name.startswith("hugepages-")


def amounts(quantities: Quantities) -> dict[str, int]:
    """Quantities in thousandths; zeros are left out, as a request for nothing asks for nothing."""
    read: dict[str, int] = {}
    for name, text in quantities.items():
        try:
            amount = milli(text)
        except ValueError as error:
            with within(name):
                raise error
        if amount:
            read[name] = amount
    return read


def _as_written(container: Container) -> dict[str, int]:
    return amounts(container.resources.requests)


def _at_least_scored(container: Container) -> dict[str, int]:
    """For scoring only: one that does not say what it needs counts as needing a little; one that says zero does not."""
    silent = {name: amount for name, amount in _LEAST_SCORED.items() if name not in container.resources.requests}
    return _as_written(container) | silent


def pod_requests(spec: PodSpec, own: OwnRequests = _as_written) -> dict[str, int]:
    """Return the total requests of a pod.

    Containers and sidecars run together; each init container runs beside the sidecars started before it; requests of
    the pod itself replace the sum for cpu, memory and hugepages; overhead comes on top.
    """
    running = total(_each("spec.containers", spec.containers, own))
    needed = running
    if spec.init_containers:
        sidecars, peak = _init_phase(spec.init_containers, own)
        needed = at_least(total((running, sidecars)), peak)
    if spec.resources is not None:
        with within("spec.resources.requests"):
            ours = amounts(spec.resources.requests)
        needed |= {name: amount for name, amount in ours.items() if is_pod_level(name)}
    if not spec.overhead:
        return needed
    with within("spec.overhead"):
        return total((needed, amounts(spec.overhead)))


def scored_requests(spec: PodSpec) -> tuple[int, int]:
    """Cpu and memory as scoring sees them."""
    needed = pod_requests(spec, _at_least_scored)
    return needed.get("cpu", 0), needed.get("memory", 0)


def held_requests(raw: KubePod) -> dict[str, int]:
    """Return the requests that a bound pod holds on its node: during an in-place resize, the larger of old and new."""
    statuses = {s.name: s for s in (*raw.status.container_statuses, *raw.status.init_container_statuses)}
    if not any(status.resources is not None for status in statuses.values()):
        return pod_requests(raw.spec)
    refused = resize_refused(raw)
    sidecars_and_containers = {c.name for c in raw.spec.containers} | {
        c.name for c in raw.spec.init_containers if c.restart_policy == "Always"
    }
    resizable = {name: status for name, status in statuses.items() if name in sidecars_and_containers}
    return pod_requests(raw.spec, lambda container: _resized(container, resizable, refused=refused))


def resize_refused(raw: KubePod) -> bool:
    """True if the node reported that the pod's resize is infeasible."""
    return any(c.type == "PodResizePending" and c.reason == "Infeasible" for c in raw.status.conditions)


def _resized(container: Container, statuses: Mapping[str, ContainerStatus], *, refused: bool) -> dict[str, int]:
    written = _as_written(container)
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return written
    given = at_least(amounts(status.resources.requests), amounts(status.allocated_resources))
    return given if refused else at_least(written, given)


def _each(path: str, containers: Iterable[Container], own: OwnRequests) -> Iterable[dict[str, int]]:
    for index, container in enumerate(containers):
        try:
            yield own(container)
        except ValueError as error:
            with within(f"{path}[{index}].resources.requests"):
                raise error


def _init_phase(containers: Iterable[Container], own: OwnRequests) -> tuple[dict[str, int], Amounts]:
    """Return the requests of the sidecars, and the peak of requests while init containers run."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container, asked in zip(containers, _each("spec.initContainers", containers, own), strict=True):
        together = total((sidecars, asked))
        peak = at_least(peak, together)
        if container.restart_policy == "Always":
            sidecars = together
    return sidecars, peak


def unbounded_containers(spec: PodSpec) -> tuple[str, ...]:
    """Containers that say neither request nor limit of cpu or of memory, where the pod as a whole does not."""
    said = set(spec.resources.requests) | set(spec.resources.limits) if spec.resources is not None else set()
    missing = [name for name in _POD_LEVEL if name not in said]
    return tuple(
        container.name
        for container in (*spec.init_containers, *spec.containers)
        if any(name not in container.resources.requests and name not in container.resources.limits for name in missing)
    )
