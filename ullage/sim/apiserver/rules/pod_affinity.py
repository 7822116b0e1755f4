"""Validation of affinities and topology spread constraints in pod specs."""

from typing import Any

from ullage.sim.apiserver.request import names
from ullage.sim.apiserver.request.field_errors import FieldError, required, unsupported, wrong
from ullage.sim.apiserver.storage.json_bytes import JsonObject

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_affinity(affinity: JsonObject, at: str) -> list[FieldError]:
    found: list[FieldError] = []
    if node := affinity.get("nodeAffinity"):
        found += _check_node_affinity(node, f"{at}.nodeAffinity")
    for member in ("podAffinity", "podAntiAffinity"):
        found += _check_pod_affinity(affinity.get(member) or {}, f"{at}.{member}")
    return found


def _check_node_affinity(affinity: JsonObject, at: str) -> list[FieldError]:
    found: list[FieldError] = []
    if (needed := affinity.get(_REQUIRED)) is not None:
        where = f"{at}.{_REQUIRED}.nodeSelectorTerms"
        terms = needed.get("nodeSelectorTerms") or []
        if not terms:
            found.append(required(where, "must have at least one node selector term"))
        for index, term in enumerate(terms):
            found += _check_term(term, f"{where}[{index}]")
    for index, preferred in enumerate(affinity.get(_PREFERRED) or []):
        where = f"{at}.{_PREFERRED}[{index}]"
        found += _check_weight(preferred, where)
        found += _check_term(preferred.get("preference") or {}, f"{where}.preference")
    return found


def _check_term(term: JsonObject, at: str) -> list[FieldError]:
    found: list[FieldError] = []
    for member in ("matchExpressions", "matchFields"):
        for index, requirement in enumerate(term.get(member) or []):
            found += _check_requirement(requirement, f"{at}.{member}[{index}]")
    return found


def _check_requirement(requirement: JsonObject, at: str) -> list[FieldError]:
    operator, values = requirement.get("operator"), requirement.get("values") or []
    found: list[FieldError] = []
    if operator in ("In", "NotIn") and not values:
        found.append(required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist") and values:
        why = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        found.append(FieldError(f"{at}.values", "FieldValueForbidden", why))
    elif operator in ("Gt", "Lt") and len(values) != 1:
        found.append(required(f"{at}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    elif operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
        found.append(wrong(f"{at}.operator", operator or "", "not a valid selector operator"))
    key = requirement.get("key") or ""
    return found + [wrong(f"{at}.key", key, why) for why in names.qualified_name(key)]


def _check_pod_affinity(affinity: JsonObject, at: str) -> list[FieldError]:
    found: list[FieldError] = []
    for index, term in enumerate(affinity.get(_REQUIRED) or []):
        found += _check_topology_key(term, f"{at}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.get(_PREFERRED) or []):
        where = f"{at}.{_PREFERRED}[{index}]"
        found += _check_weight(weighted, where)
        found += _check_topology_key(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")
    return found


def _check_topology_key(term: JsonObject, at: str) -> list[FieldError]:
    key = term.get("topologyKey") or ""
    found = [] if key else [required(f"{at}.topologyKey", "can not be empty")]
    return found + [wrong(f"{at}.topologyKey", key, why) for why in names.qualified_name(key)]


def _check_weight(weighted: JsonObject, at: str) -> list[FieldError]:
    weight: Any = weighted.get("weight", 0)
    return [] if 1 <= weight <= 100 else [wrong(f"{at}.weight", weight, "must be in the range 1-100")]


def check_spread(constraints: list[JsonObject], at: str) -> list[FieldError]:
    found: list[FieldError] = []
    actions = ("DoNotSchedule", "ScheduleAnyway")
    for index, constraint in enumerate(constraints):
        where = f"{at}[{index}]"
        skew = constraint.get("maxSkew", 0)
        if skew <= 0:
            found.append(wrong(f"{where}.maxSkew", skew, "must be greater than zero"))
        if not constraint.get("topologyKey"):
            found.append(required(f"{where}.topologyKey", "can not be empty"))
        action = constraint.get("whenUnsatisfiable") or ""
        if action not in actions:
            found.append(unsupported(f"{where}.whenUnsatisfiable", action, actions))
    return found
