"""Kubernetes objects as plain JSON, for tests: a builder mentions only what matters and leaves the rest to defaults.

Whatever has no parameter of its own is given in Kubernetes' own spelling: `a_pod("a", nodeName="n1")`. Builders return
new objects each time; nothing here talks to an API server.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ullage.kube.client.resource import JsonObject, Resource

GPU = "nvidia.com/gpu"

Strings = Mapping[str, str]


def a_meta(name: str, labels: Strings | None = None, **more: Any) -> JsonObject:
    """Metadata: a name, labels if any, and what else is said, such as `finalizers`."""
    return {"name": name} | ({"labels": dict(labels)} if labels else {}) | more


def with_meta(body: Mapping[str, Any], **metadata: Any) -> JsonObject:
    """Copy of the object with these fields of its metadata replaced."""
    return {**body, "metadata": {**body.get("metadata", {}), **metadata}}


def of_kind(resource: Resource[Any], body: Mapping[str, Any], namespace: str = "default") -> JsonObject:
    """The object as a manifest: with its kind, and with a namespace if it has none and lives in one."""
    where = {"namespace": namespace} if resource.namespaced else {}
    whole = {**body, "metadata": where | body["metadata"]}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **whole}


def owned_by(body: Mapping[str, Any], owner: Mapping[str, Any], **reference: Any) -> JsonObject:
    """Copy of the object with `owner`, as the API server returned it, as its controller."""
    meta = owner["metadata"]
    link = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return with_meta(body, ownerReferences=[{"controller": True} | link | reference])


def a_container(name: str = "main", *, requests: Strings | None = None, limits: Strings | None = None) -> JsonObject:
    """A container of an image that is never pulled."""
    asked = {"requests": requests, "limits": limits}
    resources = {key: dict(value) for key, value in asked.items() if value}
    return {"name": name, "image": "example.com/main:1"} | ({"resources": resources} if resources else {})


def a_pod_spec(*, requests: Strings | None = None, gpus: int = 0, **spec: Any) -> JsonObject:
    """One container that asks for this much; more of the spec may be said or replaced."""
    limits = {GPU: str(gpus)} if gpus else None
    return {"containers": [a_container(requests=requests, limits=limits)]} | spec


def a_pod(
    name: str,
    *,
    labels: Strings | None = None,
    annotations: Strings | None = None,
    requests: Strings | None = None,
    gpus: int = 0,
    **spec: Any,
) -> JsonObject:
    """A pod of one container."""
    notes = {"annotations": dict(annotations)} if annotations else {}
    return {"metadata": a_meta(name, labels, **notes), "spec": a_pod_spec(requests=requests, gpus=gpus, **spec)}


def a_node(
    name: str,
    *,
    labels: Strings | None = None,
    gpus: int = 0,
    allocatable: Strings | None = None,
    ready: bool = True,
    **spec: Any,
) -> JsonObject:
    """A node with room for pods; `gpus` and `allocatable` come on top of 32 CPUs, 256 GiB and 110 pods."""
    devices = {GPU: str(gpus)} if gpus else {}
    room = {"cpu": "32", "memory": "256Gi", "pods": "110"} | devices | dict(allocatable or {})
    condition = {"type": "Ready", "status": "True" if ready else "False", "reason": "Stated"}
    status = {"capacity": room, "allocatable": room, "conditions": [condition]}
    return {"metadata": a_meta(name, labels), "spec": spec, "status": status}


def a_taint(key: str, value: str = "", effect: str = "NoSchedule") -> JsonObject:
    """A taint that keeps pods off a node."""
    return {"key": key, "value": value, "effect": effect}


def a_namespace(name: str, labels: Strings | None = None) -> JsonObject:
    """A namespace."""
    return {"metadata": a_meta(name, labels)}


def a_config_map(name: str, *, labels: Strings | None = None, **data: str) -> JsonObject:
    """A config map: the simplest object there is."""
    return {"metadata": a_meta(name, labels)} | ({"data": data} if data else {})


def a_lease(name: str, holder: str | None = None, **spec: Any) -> JsonObject:
    """A Lease without a holder, unless one is given."""
    return {"metadata": a_meta(name), "spec": ({"holderIdentity": holder} if holder else {}) | spec}


def a_budget(name: str, selects: Strings, **spec: Any) -> JsonObject:
    """A disruption budget for the pods with these labels: say `minAvailable` or `maxUnavailable`."""
    return {"metadata": a_meta(name), "spec": {"selector": {"matchLabels": dict(selects)}} | spec}


def a_priority_class(name: str, value: int, **fields: Any) -> JsonObject:
    """A priority class."""
    return {"metadata": a_meta(name), "value": value} | fields


def an_event(name: str, about: Mapping[str, Any], **fields: Any) -> JsonObject:
    """An events.k8s.io Event of our scheduler about an object, as a reference to it says."""
    return {
        "metadata": a_meta(name),
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "reportingController": "ullage.dev/scheduler",
        "reportingInstance": "scheduler-0",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "regarding": dict(about),
        "note": "placed",
    } | fields


def a_workload(name: str, *, labels: Strings | None = None, pod: JsonObject | None = None, **spec: Any) -> JsonObject:
    """A ReplicaSet, Deployment, StatefulSet or DaemonSet: these four have one shape. `pod` is the template's spec."""
    chosen = dict(labels or {"app": name})
    template = {"metadata": {"labels": chosen}, "spec": pod or a_pod_spec()}
    selected = {"selector": {"matchLabels": chosen}, "template": template}
    return {"metadata": a_meta(name, chosen), "spec": selected | spec}


def a_job(name: str, *, labels: Strings | None = None, pod: JsonObject | None = None, **spec: Any) -> JsonObject:
    """A Job whose pods are not restarted."""
    template = {"metadata": {"labels": dict(labels or {})}, "spec": {"restartPolicy": "Never"} | (pod or a_pod_spec())}
    return {"metadata": a_meta(name, labels), "spec": {"template": template} | spec}


def a_gpu_claim(name: str, count: int = 1, *, devices: Mapping[str, Any] | None = None, **spec: Any) -> JsonObject:
    """A GpuClaim for so many GPUs; `devices` says more about them."""
    return {"metadata": a_meta(name), "spec": {"devices": {"count": count} | dict(devices or {})} | spec}


def a_virtual_machine(
    name: str, use: int = 1, most: int = 4, *, guest: Mapping[str, Any] | None = None, **spec: Any
) -> JsonObject:
    """A VM of so many cores, with 4 slots of memory for each, that its agent may resize; `guest` says it otherwise."""
    cpus, slots = {"min": 1, "use": use, "max": most}, {"min": 4, "use": 4 * use, "max": 4 * most}
    whole = {"cpus": cpus, "memorySlots": slots} | dict(guest or {})
    labels = {"autoscaling.neon.tech/enabled": "true"}
    return {"metadata": a_meta(name, labels), "spec": {"guest": whole} | spec}


def a_volume_claim(
    name: str, storage_class: str = "", *, volume: str = "", selected: str = "", **spec: Any
) -> JsonObject:
    """A claim for a disk: bound if it has a volume, and promised to a node if one is selected."""
    notes = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    notes |= {"volume.kubernetes.io/selected-node": selected} if selected else {}
    named = {"storageClassName": storage_class, "volumeName": volume}
    plain = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    said = plain | {key: value for key, value in named.items() if value} | spec
    return {"metadata": a_meta(name, **({"annotations": notes} if notes else {})), "spec": said}


def a_volume(name: str, storage_class: str = "", *terms: Mapping[str, Sequence[str]], **spec: Any) -> JsonObject:
    """A disk; nodes that reach it have one of these sets of labels, each with the values it may have."""
    plain: JsonObject = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    plain |= {"storageClassName": storage_class} if storage_class else {}
    if terms:
        plain["nodeAffinity"] = {"required": {"nodeSelectorTerms": [_node_term(one) for one in terms]}}
    return {"metadata": a_meta(name), "spec": plain | spec}


def _node_term(labels: Mapping[str, Sequence[str]]) -> JsonObject:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(some)} for key, some in labels.items()]}


def a_storage_class(name: str, provisioner: str = "example.com/disks", **fields: Any) -> JsonObject:
    """A class whose volumes are bound when the first pod that mounts one has a node."""
    return {"metadata": a_meta(name), "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"} | fields


def a_resource_slice(name: str, node: str, gpus: Mapping[str, str]) -> JsonObject:
    """The ResourceSlice of a node's driver: UUIDs of GPUs by the names it gives them."""
    devices = [{"name": gpu, "attributes": {"uuid": {"string": uuid}}} for gpu, uuid in gpus.items()]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": a_meta(name), "spec": spec}


def a_crd(resource: Resource[Any], properties: Mapping[str, Any], *, subresources: Sequence[str] = ()) -> JsonObject:
    """A definition that makes `resource` served, its objects having these properties beside metadata."""
    schema = {"type": "object", "properties": dict(properties)}
    version: JsonObject = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {name: SUBRESOURCES[name] for name in subresources},
    }
    names = {"plural": resource.plural, "singular": resource.kind.lower(), "kind": resource.kind}
    spec = {
        "group": resource.group,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "names": names | {"listKind": f"{resource.kind}List"},
        "versions": [version],
    }
    return {"metadata": a_meta(resource.id), "spec": spec}


SUBRESOURCES: Mapping[str, JsonObject] = {
    "status": {},
    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
}
"""Subresources of a CustomResourceDefinition: a status, and the paths for scaling."""
