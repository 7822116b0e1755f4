"""Validation of updates to a pod's spec."""

from typing import Any

from ullage.sim.apiserver.request.field_errors import FieldError, forbidden_field, wrong
from ullage.sim.apiserver.storage.json_bytes import JsonObject, copied

_FROZEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_toleration_additions(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    """Tolerations may be added, never taken away."""
    kept = spec.get("tolerations") or []
    gone = [t for t in old.get("tolerations") or [] if t not in kept]
    if not gone:
        return []
    return [forbidden_field("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def check_pod_update(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    """Everything is immutable but images, deadline, tolerations and, while gated, node selector and affinity."""
    if spec == old:
        return []
    for member in ("containers", "initContainers"):
        if len(spec.get(member) or []) != len(old.get(member) or []):
            return [forbidden_field(f"spec.{member}", "pod updates may not add or remove containers")]
    found = _check_deadline(spec, old) + _check_gates(spec, old)
    if found:
        return found
    gated = bool(old.get("schedulingGates"))
    if gated and (found := _check_gated_selector(spec, old)):
        return found
    if _frozen(spec, gated) != _frozen(old, gated):
        return [forbidden_field("spec", _FROZEN)]
    return []


def _check_deadline(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    before, after = old.get("activeDeadlineSeconds"), spec.get("activeDeadlineSeconds")
    if before is None:
        return []
    at = "spec.activeDeadlineSeconds"
    if after is None:
        return [wrong(at, None, "must not update from a positive integer to nil value")]
    return [wrong(at, after, "must be less than or equal to previous value")] if after > before else []


def _check_gates(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    known = [gate.get("name") for gate in old.get("schedulingGates") or []]
    return [
        forbidden_field(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for index, gate in enumerate(spec.get("schedulingGates") or [])
        if gate.get("name") not in known
    ]


def _check_gated_selector(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    after, before = spec.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if any(after.get(key) != value for key, value in before.items()):
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        return [wrong("spec.nodeSelector", after, why)]
    return []


def _frozen(spec: JsonObject, gated: bool) -> JsonObject:
    """The spec without the fields that may change."""
    rest: dict[str, Any] = copied(spec)
    for member in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        rest.pop(member, None)
    if gated:
        rest.pop("nodeSelector", None)
        rest.pop("affinity", None)
    if (rest.get("terminationGracePeriodSeconds") or 0) < 0:
        rest["terminationGracePeriodSeconds"] = 1
    for member in ("containers", "initContainers"):
        for container in rest.get(member) or []:
            container.pop("image", None)
    return rest
