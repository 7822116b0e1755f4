"""The rules of nodes."""

from collections.abc import Mapping

from ullage.model.quantity import quantity
from ullage.sim.apiserver.kinds.kind import FieldReader, KindRules
from ullage.sim.apiserver.merge.type_merging import merge_schema_of
from ullage.sim.apiserver.request import names
from ullage.sim.apiserver.request.field_errors import FieldError, required, shown, unsupported, wrong
from ullage.sim.apiserver.rules.pod_validation import is_extended
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.types.object_schemas import object_schema

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


_NODE_FIELDS: Mapping[str, FieldReader] = {
    "spec.unschedulable": lambda obj: "true" if obj.get("spec", {}).get("unschedulable") else "false"
}


class NodeRules(KindRules):
    shape = object_schema("core.v1.Node")
    keeps_status = True
    schema = merge_schema_of("core.v1.Node")
    fields = _NODE_FIELDS

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})
        _default_allocatable(obj.setdefault("status", {}))

    def prepare_status(self, obj: JsonObject, _old: JsonObject) -> None:
        _default_allocatable(obj.setdefault("status", {}))

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return _check_taints(obj["spec"].get("taints") or []) + _check_amounts(obj["status"])

    def validate_status(self, obj: JsonObject, _old: JsonObject) -> list[FieldError]:
        return _check_amounts(obj.get("status") or {})

    def validate_update(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        found: list[FieldError] = []
        before, after = old.get("spec", {}).get("providerID"), obj.get("spec", {}).get("providerID")
        if before and after != before:
            done = "modified" if after else "cleared"
            found.append(wrong("spec.providerID", None, f"field cannot be {done} once set"))
        return self.validate(obj) + found


def _default_allocatable(status: JsonObject) -> None:
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _check_amounts(status: JsonObject) -> list[FieldError]:
    """Resources of a node are never negative, and extended resources are whole numbers."""
    found: list[FieldError] = []
    for member in ("capacity", "allocatable"):
        for name, amount in (status.get(member) or {}).items():
            at = f"status.{member}.{name}"
            if quantity(amount) < 0:
                found.append(wrong(at, amount, "must be greater than or equal to 0"))
            elif is_extended(name) and quantity(amount) % 1:
                found.append(wrong(at, amount, "must be an integer"))
    return found


def _check_taints(taints: list[JsonObject]) -> list[FieldError]:
    found: list[FieldError] = []
    seen: list[tuple[str, str]] = []
    for index, taint in enumerate(taints):
        at = f"metadata.taints[{index}]"
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        found += [wrong(f"{at}.key", key, why) for why in names.qualified_name(key)]
        found += [wrong(f"{at}.value", value, why) for why in names.label_value(value)]
        if not effect:
            found.append(required(f"{at}.effect"))
        elif effect not in _EFFECTS:
            found.append(unsupported(f"{at}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            quoted = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            message = f"Duplicate value: {shown(quoted)}: taints must be unique by key and effect pair"
            found.append(FieldError(at, "FieldValueDuplicate", message))
        seen.append((key, effect))
    return found
