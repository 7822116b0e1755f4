"""The rules of the small built-in kinds: namespaces, leases, budgets, classes, configuration."""

from collections.abc import Mapping
from typing import Any

from ullage.sim.apiserver.kinds.kind import AdmissionContext, FieldReader, KindRules
from ullage.sim.apiserver.merge.type_merging import UNTYPED, merge_schema_of
from ullage.sim.apiserver.request import names
from ullage.sim.apiserver.request.field_errors import FieldError, forbidden_field, unsupported, wrong
from ullage.sim.apiserver.request.status_errors import StatusSubject, forbidden
from ullage.sim.apiserver.storage.json_bytes import JsonObject, copied
from ullage.sim.apiserver.types.object_schemas import OPEN, object_schema

_IMMORTAL = ("default", "kube-system", "kube-public")


class PlainRules(KindRules):
    """Stored as sent."""

    shape = OPEN
    schema = UNTYPED


_NAMESPACE_FIELDS: Mapping[str, FieldReader] = {
    "status.phase": lambda obj: obj.get("status", {}).get("phase") or "",
    "name": lambda obj: obj["metadata"]["name"],
}


class NamespaceRules(KindRules):
    shape = object_schema("core.v1.Namespace")
    returns_deleted = True
    collected = False
    schema = merge_schema_of("core.v1.Namespace")
    fields = _NAMESPACE_FIELDS

    def check_name(self, name: str) -> tuple[str, ...]:
        return names.dns_label(name)

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})
        if name := obj["metadata"].get("name"):
            labels = obj["metadata"]["labels"] = obj["metadata"].get("labels") or {}
            labels["kubernetes.io/metadata.name"] = name

    def prepare_create(self, obj: JsonObject, _around: AdmissionContext) -> None:
        obj["status"] = {"phase": "Active"}
        held = obj["spec"].setdefault("finalizers", [])
        if "kubernetes" not in held:
            held.append("kubernetes")

    def prepare_update(self, obj: JsonObject, old: JsonObject) -> None:
        obj["spec"] = copied(old["spec"])

    def check_delete(self, obj: JsonObject) -> None:
        name = obj["metadata"]["name"]
        if name in _IMMORTAL:
            raise forbidden(StatusSubject("namespaces", "", name), "this namespace may not be deleted")

    def mark_deleted(self, obj: JsonObject, around: AdmissionContext) -> JsonObject | None:
        """The contents of a namespace go first; the controller that removes them then calls `finalize`."""
        if not obj["spec"].get("finalizers") and obj["metadata"].get("deletionTimestamp"):
            return None
        marked = copied(obj)
        marked["metadata"].setdefault("deletionTimestamp", around.timestamp())
        marked.setdefault("status", {})["phase"] = "Terminating"
        return marked

    def may_vanish(self, obj: JsonObject) -> bool:
        return not obj["spec"].get("finalizers")


class LeaseRules(KindRules):
    shape = object_schema("coordination.v1.Lease")
    unconditional_update = False
    create_on_update = True
    schema = merge_schema_of("coordination.v1.Lease")

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec, found = obj["spec"], list[FieldError]()
        duration, moves = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            found.append(wrong("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if moves is not None and moves < 0:
            found.append(wrong("spec.leaseTransitions", moves, "must be greater than or equal to 0"))
        return found


class BudgetRules(KindRules):
    shape = object_schema("policy.v1.PodDisruptionBudget")
    counts_generations = True
    unconditional_update = False
    schema = merge_schema_of("policy.v1.PodDisruptionBudget")

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})

    def prepare_create(self, obj: JsonObject, _around: AdmissionContext) -> None:
        obj["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}

    def prepare_status(self, obj: JsonObject, _old: JsonObject) -> None:
        status = obj.setdefault("status", {})
        for member in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
            status.setdefault(member, 0)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec, found = obj["spec"], list[FieldError]()
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if least is not None and most is not None:
            found.append(wrong("spec", _as_go(spec), "minAvailable and maxUnavailable cannot be both set"))
        for member, value in (("minAvailable", least), ("maxUnavailable", most)):
            found += _check_int_or_percent(value, f"spec.{member}")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in ("IfHealthyBudget", "AlwaysAllow"):
            choices = ["AlwaysAllow", "IfHealthyBudget"]
            found.append(unsupported("spec.unhealthyPodEvictionPolicy", policy, choices))
        return found


def _as_go(spec: JsonObject) -> JsonObject:
    """The server quotes its own struct here, not what was sent."""
    names = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
    return {name[0].upper() + name[1:]: spec.get(name) for name in names}


_PERCENT_WORDS = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def _check_int_or_percent(value: Any, at: str) -> list[FieldError]:
    if isinstance(value, str):
        if not value.endswith("%") or not value[:-1].isdigit():
            return [wrong(at, value, _PERCENT_WORDS)]
        return [] if int(value[:-1]) <= 100 else [wrong(at, value, "must not be greater than 100%")]
    if value is not None and value < 0:
        return [wrong(at, value, "must be greater than or equal to 0")]
    return []


class PriorityClassRules(KindRules):
    shape = object_schema("scheduling.v1.PriorityClass")
    counts_generations = True
    schema = merge_schema_of("scheduling.v1.PriorityClass")

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def desired(self, _obj: JsonObject) -> object:
        return None

    def admit(self, obj: JsonObject, around: AdmissionContext) -> None:
        if not obj.get("globalDefault"):
            return
        for other in around.all("priorityclasses.scheduling.k8s.io"):
            if other.get("globalDefault"):
                name, taken = obj["metadata"].get("name", ""), other["metadata"]["name"]
                why = f"PriorityClass {taken} is already marked as default. Only one default can exist"
                raise forbidden(StatusSubject("priorityclasses", "scheduling.k8s.io", name), why)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        name, value = obj["metadata"].get("name", ""), obj["value"]
        if name.startswith("system-") and name not in ("system-node-critical", "system-cluster-critical"):
            why = "priority class names with 'system-' prefix are reserved for system use only."
            return [forbidden_field("metadata.name", f"{why} error: {name} is not a known system priority class")]
        if value > 1000000000 and not name.startswith("system-"):
            return [forbidden_field("value", "maximum allowed value of a user defined priority is 1000000000")]
        if obj["preemptionPolicy"] not in ("Never", "PreemptLowerPriority"):
            choices = ["Never", "PreemptLowerPriority"]
            return [unsupported("preemptionPolicy", obj["preemptionPolicy"], choices)]
        return []

    def validate_update(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        found: list[FieldError] = []
        if obj["value"] != old["value"]:
            found.append(forbidden_field("value", "may not be changed in an update."))
        if obj["preemptionPolicy"] != old["preemptionPolicy"]:
            found.append(wrong("preemptionPolicy", obj["preemptionPolicy"], "field is immutable"))
        return found


class GenerationRules(KindRules):
    """Kinds that count generations over everything but metadata."""

    shape = OPEN
    counts_generations = True
    unconditional_update = False
    schema = UNTYPED

    def desired(self, obj: JsonObject) -> object:
        return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


class OpaqueDeviceRules(KindRules):
    """ResourceClaims and ResourceSlices: stored without validation."""

    shape = OPEN
    returns_deleted = True
    schema = UNTYPED


class SliceRules(OpaqueDeviceRules):
    """ResourceSlices, with field selectors by node and driver."""

    fields: Mapping[str, FieldReader] = {
        "spec.nodeName": lambda obj: obj["spec"].get("nodeName") or "",
        "spec.driver": lambda obj: obj["spec"].get("driver") or "",
    }
