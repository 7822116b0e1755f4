"""Objects as actors read them: builders mention only what matters. Moments are seconds after `EPOCH`."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ullage.clock import Instant
from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.policy import KubePodDisruptionBudget
from ullage.kube.objects.workload import KubeWorkload
from ullage.kube.timestamps import write_time
from ullage.sim.controllers.objects import ActorJob, ActorNode, ActorPod, DaemonSet, Deployment, StatefulSet
from ullage.sim.controllers.writes import ControllerPlan, CreateObject, DeleteObject, MergeObject, Write
from ullage.sim.virtual_time import EPOCH
from ullage.testing.builders import a_budget, a_job, a_node, a_pod, a_workload

NS = "default"


def at(seconds: float) -> Instant:
    return Instant(EPOCH + seconds)


def seconds(moment: Instant | None) -> float | None:
    """A moment as the tests speak of it."""
    return None if moment is None else round(moment - EPOCH, 3)


def _identified(body: JsonObject, **more: Any) -> JsonObject:
    name = body["metadata"]["name"]
    identity = {"namespace": NS, "uid": f"uid-{name}", "resourceVersion": "1", "generation": 1}
    return {**body, "metadata": {"creationTimestamp": write_time(EPOCH), **identity, **body["metadata"], **more}}


def owner(kind: str, name: str, *, controller: bool = True, blocks: bool = True) -> JsonObject:
    versions = {"Job": "batch/v1", "ConfigMap": "v1", "Node": "v1"}
    reference = {"apiVersion": versions.get(kind, "apps/v1"), "kind": kind, "name": name, "uid": f"uid-{name}"}
    return reference | {"controller": controller, "blockOwnerDeletion": blocks}


def pod(
    name: str,
    *,
    phase: str = "Running",
    ready: bool | None = None,
    node: str = "node-a",
    owned_by: JsonObject | None = None,
    created: float = 0,
    ready_at: float = 0,
    restarts: int = 0,
    going: float | None = None,
    grace: int = 30,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> ActorPod:
    """A pod on a node, running and ready unless said otherwise; `going` is when it was told to go."""
    body = a_pod(name, labels=labels or {"app": "web"}, annotations=annotations, **spec)
    if node:
        body["spec"]["nodeName"] = node
    is_ready = phase == "Running" if ready is None else ready
    condition = {
        "type": "Ready",
        "status": "True" if is_ready else "False",
        "lastTransitionTime": write_time(at(ready_at)),
    }
    body["status"] = {"phase": phase, "conditions": [condition] if phase else []}
    if restarts:
        body["status"]["containerStatuses"] = [{"name": "main", "restartCount": restarts}]
    body["status"] |= status or {}
    more: JsonObject = {"creationTimestamp": write_time(at(created)), "finalizers": list(finalizers)}
    if owned_by is not None:
        more["ownerReferences"] = [owned_by]
    if going is not None:
        more |= {"deletionTimestamp": write_time(at(going + grace)), "deletionGracePeriodSeconds": grace}
    return msgspec.convert(_identified(body, **more), ActorPod)


def node(name: str = "node-a", *, created: float = 0, **more: Any) -> ActorNode:
    conditions = more.pop("conditions", None)
    body = a_node(name, **more)
    if conditions is not None:
        body["status"]["conditions"] = conditions
    identified = _identified(body, creationTimestamp=write_time(at(created)))
    identified["metadata"].pop("namespace")
    return msgspec.convert(identified, ActorNode)


def replica_set(
    name: str = "web", *, status: Mapping[str, Any] | None = None, meta: Any = None, **spec: Any
) -> KubeWorkload:
    return msgspec.convert(_with_status(a_workload(name, **spec), status, meta), KubeWorkload)


def deployment(*, status: Mapping[str, Any] | None = None, meta: Any = None, **spec: Any) -> Deployment:
    return msgspec.convert(_with_status(a_workload("web", **spec), status, meta), Deployment)


def stateful_set(*, status: Mapping[str, Any] | None = None, meta: Any = None, **spec: Any) -> StatefulSet:
    return msgspec.convert(_with_status(a_workload("db", **spec), status, meta), StatefulSet)


def daemon_set(*, status: Mapping[str, Any] | None = None, meta: Any = None, **spec: Any) -> DaemonSet:
    return msgspec.convert(_with_status(a_workload("agent", **spec), status, meta), DaemonSet)


def job(*, status: Mapping[str, Any] | None = None, meta: Any = None, **spec: Any) -> ActorJob:
    return msgspec.convert(_with_status(a_job("task", **spec), status, meta), ActorJob)


def budget(*, status: Mapping[str, Any] | None = None, **spec: Any) -> KubePodDisruptionBudget:
    return msgspec.convert(_with_status(a_budget("web", {"app": "web"}, **spec), status, None), KubePodDisruptionBudget)


def _with_status(body: JsonObject, status: Mapping[str, Any] | None, meta: Any) -> JsonObject:
    return {**_identified(body, **(meta or {})), "status": dict(status or {})}


def said(plan: ControllerPlan | Sequence[Write]) -> list[str]:
    """What would be written, in words: `create pods`, `delete pods/a`, `merge pods/a/status`."""
    return [_word(write) for write in (plan.writes if isinstance(plan, ControllerPlan) else plan)]


def _word(write: Write) -> str:
    match write:
        case CreateObject(resource, _, body):
            name = body["metadata"].get("name", "")
            return f"create {resource.plural}{'/' + name if name else ''}"
        case MergeObject(resource, _, name, _, subresource):
            return f"merge {resource.plural}/{name}{'/' + subresource if subresource else ''}"
        case DeleteObject(resource, _, name, _):
            return f"delete {resource.plural}/{name}"


def merged(plan: ControllerPlan | Sequence[Write], name: str) -> JsonObject:
    """The body of the one merge into the object of this name."""
    writes = plan.writes if isinstance(plan, ControllerPlan) else plan
    (body,) = [write.body for write in writes if isinstance(write, MergeObject) and write.name == name]
    return body
