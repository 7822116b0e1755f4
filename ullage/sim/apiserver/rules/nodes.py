"""The rules of nodes."""

from ullage.sim.apiserver import names
from ullage.sim.apiserver.fields import FieldError, duplicate, forbidden_field, required, unsupported, wrong
from ullage.sim.apiserver.kinds import Rules
from ullage.sim.apiserver.rules.merge_schemas import NODE
from ullage.sim.apiserver.rules.quantities import canonicalise
from ullage.sim.apiserver.wire import JsonObject

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NodeRules(Rules):
    keeps_status = True
    schema = NODE
    fields = {"spec.unschedulable": lambda obj: "true" if obj.get("spec", {}).get("unschedulable") else "false"}

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        if isinstance(status, dict):
            for member in ("capacity", "allocatable"):
                canonicalise(status.get(member))
            if "capacity" in status:
                status.setdefault("allocatable", dict(status["capacity"]))

    def prepare_status(self, obj: JsonObject, old: JsonObject) -> None:
        for member in ("capacity", "allocatable"):
            canonicalise((obj.get("status") or {}).get(member))

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec")
        return _check_taints(spec.get("taints") or []) if isinstance(spec, dict) else []

    def validate_update(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        found: list[FieldError] = []
        before, after = old.get("spec", {}).get("providerID"), obj.get("spec", {}).get("providerID")
        if before and after != before:
            found.append(forbidden_field("spec.providerID", "node updates may not change providerID except from \"\" to valid"))
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
            found.append(duplicate(at, taint))
        seen.append((key, effect))
    return found
