"""Defaults of pod specs, in pods and in templates alike."""

from typing import Any

import msgspec

from ullage.kube.objects.pod import PodSpec
from ullage.kube.read.requests import pod_requests
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.types.quantities import canonical

_CONTAINER_LISTS = ("containers", "initContainers")


def default_pod_spec(spec: JsonObject) -> None:
    """In place. Idempotent."""
    for name in _CONTAINER_LISTS:
        for container in _objects(spec.get(name)):
            _default_container(container, host_network=bool(spec.get("hostNetwork")))
    spec.setdefault("restartPolicy", "Always")
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    elif spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    if account := spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", account)
    for volume in _objects(spec.get("volumes")):
        _default_volume(volume)


def default_requests(spec: JsonObject) -> None:
    """A limit without a request is also the request. Pods only: in templates it is left as written."""
    for name in _CONTAINER_LISTS:
        for container in _objects(spec.get(name)):
            resources = container.get("resources")
            if not isinstance(resources, dict) or not isinstance(resources.get("limits"), dict):
                continue
            requests = resources.setdefault("requests", {})
            for resource, amount in resources["limits"].items():
                requests.setdefault(resource, amount)
    _default_pod_requests(spec)


def _default_pod_requests(spec: JsonObject) -> None:
    """Pod-level requests: those of its containers, else its limit."""
    resources = spec.get("resources")
    if not isinstance(resources, dict) or not resources.get("limits"):
        return
    requests = resources.setdefault("requests", {})
    for name, amount in _asked_by_containers(spec).items():
        requests.setdefault(name, amount)
    for name, amount in resources["limits"].items():
        requests.setdefault(name, amount)


def _asked_by_containers(spec: JsonObject) -> dict[str, str]:
    """CPU and memory requests of all containers; empty if unreadable, which validation refuses later."""
    try:
        containers = msgspec.convert({name: spec.get(name) or [] for name in _CONTAINER_LISTS}, PodSpec)
        asked = pod_requests(containers)
    except (ValueError, msgspec.ValidationError):
        return {}
    return {name: _written(name, amount) for name, amount in asked.items() if name in ("cpu", "memory")}


def _written(name: str, milli: int) -> str:
    """Sums keep the unit of what was summed; here memory is taken to be in binary ones wherever it can be."""
    kibibytes, rest = divmod(milli, 1024 * 1000)
    return canonical(f"{kibibytes}Ki" if name == "memory" and not rest else f"{milli}m")


def _default_container(container: JsonObject, *, host_network: bool) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = container.get("image")
    if isinstance(image, str) and not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = "Always" if _is_latest(image) else "IfNotPresent"
    for port in _objects(container.get("ports")):
        port.setdefault("protocol", "TCP")
        if host_network and "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])
    for variable in _objects(container.get("env")):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if isinstance(reference, dict):
            reference.setdefault("apiVersion", "v1")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(probe), dict):
            _default_probe(container[probe])


def _default_probe(probe: JsonObject) -> None:
    for member, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe.setdefault(member, value)
    if isinstance(probe.get("httpGet"), dict):
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def _default_volume(volume: JsonObject) -> None:
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", 0o644)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}


def _is_latest(image: str) -> bool:
    if "@" in image:
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag in ("", "latest")


def _objects(value: Any) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
