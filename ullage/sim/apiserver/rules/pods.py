"""The rules of pods."""

from collections.abc import Mapping

from ullage.sim.apiserver.kinds.kind import AdmissionContext, FieldReader, KindRules
from ullage.sim.apiserver.merge.type_merging import merge_schema_of
from ullage.sim.apiserver.request import names
from ullage.sim.apiserver.request.field_errors import FieldError, wrong
from ullage.sim.apiserver.request.status_errors import StatusError, StatusSubject, forbidden
from ullage.sim.apiserver.rules.pod_defaults import default_pod_spec, default_requests
from ullage.sim.apiserver.rules.pod_updates import check_pod_update, check_toleration_additions
from ullage.sim.apiserver.rules.pod_validation import check_pod_spec
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.types.object_schemas import object_schema

_EVICTION_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_SECONDS = 300
_SYSTEM_CLASSES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


_POD_FIELDS: Mapping[str, FieldReader] = {
    "spec.nodeName": lambda obj: obj["spec"].get("nodeName") or "",
    "spec.restartPolicy": lambda obj: obj["spec"].get("restartPolicy") or "",
    "spec.schedulerName": lambda obj: obj["spec"].get("schedulerName") or "",
    "spec.serviceAccountName": lambda obj: obj["spec"].get("serviceAccountName") or "",
    "spec.hostNetwork": lambda obj: "true" if obj["spec"].get("hostNetwork") else "false",
    "status.phase": lambda obj: obj["status"].get("phase") or "",
    "status.podIP": lambda obj: obj["status"].get("podIP") or "",
    "status.podIPs": lambda obj: obj["status"].get("podIP") or "",
    "status.nominatedNodeName": lambda obj: obj["status"].get("nominatedNodeName") or "",
}


class PodRules(KindRules):
    shape = object_schema("core.v1.Pod")
    counts_generations = True
    returns_deleted = True
    graceful = True
    status_resets = ("ownerReferences",)
    schema = merge_schema_of("core.v1.Pod")
    fields = _POD_FIELDS

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        if not isinstance(spec, dict):
            return
        default_pod_spec(spec)
        default_requests(spec)
        if spec.get("enableServiceLinks") is None:
            spec["enableServiceLinks"] = True

    def admit(self, obj: JsonObject, around: AdmissionContext) -> None:
        _admit_priority(obj, around)
        _tolerate_lost_nodes(obj["spec"])

    def prepare_create(self, obj: JsonObject, around: AdmissionContext) -> None:
        obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": around.timestamp(),
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]

    def prepare_update(self, obj: JsonObject, old: JsonObject) -> None:
        _tolerate_lost_nodes(obj["spec"])
        for member in ("priority", "preemptionPolicy"):
            if member in old["spec"]:
                obj["spec"].setdefault(member, old["spec"][member])

    def prepare_status(self, obj: JsonObject, old: JsonObject) -> None:
        status = obj.setdefault("status", {})
        quality = old.get("status", {}).get("qosClass")
        if isinstance(status, dict) and quality and not status.get("qosClass"):
            status["qosClass"] = quality

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return check_pod_spec(obj["spec"], "spec")

    def validate_update(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        found = check_pod_spec(obj["spec"], "spec") if obj["spec"] != old["spec"] else []
        if found:
            return found
        return check_toleration_additions(obj["spec"], old["spec"]) + check_pod_update(obj["spec"], old["spec"])

    def validate_status(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        found: list[FieldError] = []
        status, before = obj.get("status", {}), old.get("status", {})
        if nominated := status.get("nominatedNodeName"):
            found += [wrong("status.nominatedNodeName", nominated, why) for why in names.dns_subdomain(nominated)]
        if before.get("qosClass") and status.get("qosClass") != before["qosClass"]:
            found.append(wrong("status.qosClass", status.get("qosClass"), "field is immutable"))
        return found

    def grace_period(self, obj: JsonObject, asked: int | None) -> int:
        if not obj["spec"].get("nodeName") or obj["status"].get("phase") in ("Succeeded", "Failed"):
            return 0
        period = asked if asked is not None else obj["spec"].get("terminationGracePeriodSeconds") or 0
        return 1 if period < 0 else int(period)


def _admit_priority(obj: JsonObject, around: AdmissionContext) -> None:
    """The class decides the number; without one the global default class, or zero."""
    spec = obj["spec"]
    name = spec.get("priorityClassName") or ""
    about = StatusSubject("pods", "", obj["metadata"].get("name", ""))
    value, policy = 0, "PreemptLowerPriority"
    if name in _SYSTEM_CLASSES:
        value = _SYSTEM_CLASSES[name]
    elif name:
        found = around.find("priorityclasses.scheduling.k8s.io", name)
        if found is None:
            raise forbidden(about, f"no PriorityClass with name {name} was found")
        value, policy = found.get("value", 0), found.get("preemptionPolicy", policy)
    else:
        for found in around.all("priorityclasses.scheduling.k8s.io"):
            if found.get("globalDefault"):
                spec["priorityClassName"] = found["metadata"]["name"]
                value, policy = found.get("value", 0), found.get("preemptionPolicy", policy)
                break
    _agree(about, spec, "priority", value)
    _agree_policy(about, spec, policy)


def _agree(about: StatusSubject, spec: JsonObject, member: str, value: int) -> None:
    said = spec.get(member)
    if said is not None and said != value:
        raise _disagreement(about, "the integer value of priority", said, value)
    spec[member] = value


def _agree_policy(about: StatusSubject, spec: JsonObject, policy: str) -> None:
    said = spec.get("preemptionPolicy")
    if said and said != policy:
        raise _disagreement(about, "the string value of PreemptionPolicy", said, policy)
    spec["preemptionPolicy"] = policy


def _disagreement(about: StatusSubject, what: str, said: object, value: object) -> StatusError:
    why = f"{what} ({said}) must not be provided in pod spec; priority admission controller computed {value}"
    return forbidden(about, f"{why} from the given PriorityClass name")


def _tolerate_lost_nodes(spec: JsonObject) -> None:
    """Five minutes on a node that is not ready or not reachable, unless the pod says otherwise."""
    tolerations = spec.get("tolerations") or []
    for key in _EVICTION_TAINTS:
        if any(t.get("key") in (None, "", key) and t.get("effect") in (None, "", "NoExecute") for t in tolerations):
            continue
        tolerations = [
            *tolerations,
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_SECONDS},
        ]
    spec["tolerations"] = tolerations


def quality_of_service(spec: JsonObject) -> str:
    """Guaranteed, Burstable or BestEffort, by CPU and memory of all containers."""
    any_amount, guaranteed = False, True
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = requests.get(name, "0"), limits.get(name, "0")
            any_amount = any_amount or request != "0" or limit != "0"
            guaranteed = guaranteed and limit != "0" and request == limit
    if not any_amount:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
