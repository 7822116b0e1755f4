"""The rules of nodes."""

from collections.abc import Mapping

from ullage.sim.apiserver import names
from ullage.sim.apiserver.fields import FieldError, forbidden_field, required, shown, unsupported, wrong
from ullage.sim.apiserver.kinds import FieldReader, Rules
from ullage.sim.apiserver.quantities import canonicalise
from ullage.sim.apiserver.rules import shapes
from ullage.sim.apiserver.rules.merge_schemas import NODE
from ullage.sim.apiserver.wire import JsonObject

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


_NODE_FIELDS: Mapping[str, FieldReader] = {
    "spec.unschedulable": lambda obj: "true" if obj.get("spec", {}).get("unschedulable") else "false"
}


class NodeRules(Rules):
    shape = shapes.NODE
    keeps_status = True
    schema = NODE
    fields = _NODE_FIELDS

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        if isinstance(status, dict):
            for member in ("capacity", "allocatable"):
                canonicalise(status.get(member))
            if "capacity" in status:
                status.setdefault("allocatable", dict(status["capacity"]))

    def prepare_status(self, obj: JsonObject, _old: JsonObject) -> None:
        for member in ("capacity", "allocatable"):
            canonicalise((obj.get("status") or {}).get(member))

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec")
        return _check_taints(spec.get("taints") or []) if isinstance(spec, dict) else []

    def validate_update(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        found: list[FieldError] = []
        before, after = old.get("spec", {}).get("providerID"), obj.get("spec", {}).get("providerID")
        if before and after != before:
            found.append(
                forbidden_field("spec.providerID", 'node updates may not change providerID except from "" to valid')
            )
        return self.validate(obj) + found


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
