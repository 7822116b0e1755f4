"""Rules of Events: stored once, served as `v1` and as `events.k8s.io/v1`, which name the same fields differently."""

from collections.abc import Mapping

from ullage.sim.apiserver.kinds.kind import FieldReader, KindRules
from ullage.sim.apiserver.merge.type_merging import merge_schema_of
from ullage.sim.apiserver.request import names
from ullage.sim.apiserver.request.field_errors import FieldError, required, wrong
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.types.object_schemas import object_schema

_LONGEST_NOTE = 1024
_TOLD = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "eventTime", "related",
    "action", "reportingComponent", "reportingInstance", "type",
)  # fmt: skip
_PAIRS = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
)


def event_inward(obj: JsonObject) -> JsonObject:
    """From `events.k8s.io/v1` to how it is stored."""
    spelled = {new: old for old, new in _PAIRS}
    return {spelled.get(key, key): value for key, value in obj.items()}


def event_outward(obj: JsonObject) -> JsonObject:
    spelled = dict(_PAIRS)
    return {spelled.get(key, key): value for key, value in obj.items()}


def _of_object(member: str) -> FieldReader:
    return lambda obj: obj.get("involvedObject", {}).get(member) or ""


_OBJECT_MEMBERS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS: Mapping[str, FieldReader] = {
    **{f"{spelled}.{one}": _of_object(one) for spelled in ("involvedObject", "regarding") for one in _OBJECT_MEMBERS},
    "reason": lambda obj: obj.get("reason") or "",
    "type": lambda obj: obj.get("type") or "",
    "reportingComponent": lambda obj: obj.get("reportingComponent") or "",
    "reportingController": lambda obj: obj.get("reportingComponent") or "",
    "source": lambda obj: (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or "",
}


class EventRules(KindRules):
    shape = object_schema("core.v1.Event")
    create_on_update = True
    schema = merge_schema_of("core.v1.Event")
    fields = _EVENT_FIELDS

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict

    def validate(self, obj: JsonObject) -> list[FieldError]:
        """Events of the newer spelling are complete; older ones may be anything."""
        if not self._strict:
            return []
        found = [] if obj.get("eventTime") else [required("eventTime")]
        controller = obj.get("reportingComponent") or ""
        found += [] if controller else [required("reportingController")]
        found += [wrong("reportingController", controller, why) for why in names.qualified_name(controller)]
        for member, most in (("reportingInstance", 128), ("action", 128), ("reason", 128)):
            text = obj.get(member) or ""
            found += [] if text else [required(member)]
            found += [wrong(member, "", f"can have at most {most} characters")] if len(text) > most else []
        if len(obj.get("message") or "") > _LONGEST_NOTE:
            found.append(wrong("message", "", f"can have at most {_LONGEST_NOTE} characters"))
        if obj.get("type") not in ("Normal", "Warning"):
            found.append(wrong("type", obj.get("type") or "", f"has invalid value: {obj.get('type') or ''}"))
        return found

    def validate_update(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        """Errors for changed fields: an Event of the newer form is immutable but for its series."""
        if not self._strict:
            return []
        changed = [member for member in _TOLD if obj.get(member) != old.get(member)]
        return [wrong(member, obj.get(member) or "", "field is immutable") for member in changed]

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("involvedObject", {})
        for member in ("source", "reportingComponent", "reportingInstance"):
            obj.setdefault(member, {} if member == "source" else "")
        for member in ("firstTimestamp", "lastTimestamp", "eventTime"):
            obj.setdefault(member, None)
