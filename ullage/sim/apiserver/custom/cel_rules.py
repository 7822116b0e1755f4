"""CEL rules of a custom kind (`x-kubernetes-validations` in its schema), and the errors of objects that break them.

The rules of a schema are compiled into a plan once; a part of an object without rules costs nothing. An update is not
held to rules about values it leaves as they were, except those that compare with the old value.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ullage.kube.cel import CelError, CelProgram, NotCel, compiled
from ullage.kube.cel.values import CelOptional
from ullage.sim.apiserver.custom.validate import json_type
from ullage.sim.apiserver.request.field_errors import FieldError, forbidden_field, required, shown, wrong
from ullage.sim.apiserver.storage.json_bytes import JsonObject

RULES = "x-kubernetes-validations"
_NOWHERE = "<nil>"
_BLOCKING = (
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
)
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class CelRule:
    """One compiled rule."""

    program: CelProgram
    message: str
    expression: CelProgram | None
    reason: str
    path: str
    """Path of the field the error names, below the value."""
    compares: bool
    """True if the rule reads the old value."""
    optional_old: bool


@dataclass(slots=True)
class CelRulePlan:
    """Rules about a value, and the plans of its members and items."""

    laws: Sequence[CelRule] = ()
    members: dict[str, "CelRulePlan"] = field(default_factory=dict)
    rest: "CelRulePlan | None" = None
    items: "CelRulePlan | None" = None
    keys: tuple[str, ...] = ()
    compares: bool = False
    """True if any rule in here reads the old value."""


def plan_of(schema: JsonObject) -> CelRulePlan | None:
    """None where the schema has no rules. Raises NotCel."""
    laws = [_law(rule) for rule in schema.get(RULES) or []]
    members = {name: plan for name, member in (schema.get("properties") or {}).items() if (plan := plan_of(member))}
    others, items = schema.get("additionalProperties"), schema.get("items")
    rest = plan_of(others) if isinstance(others, dict) else None
    inner = plan_of(items) if isinstance(items, dict) else None
    if not laws and not members and rest is None and inner is None:
        return None
    keys = schema.get("x-kubernetes-list-map-keys") or () if schema.get("x-kubernetes-list-type") == "map" else ()
    below = [*members.values(), *(plan for plan in (rest, inner) if plan)]
    compares = any(law.compares for law in laws) or any(plan.compares for plan in below)
    return CelRulePlan(laws, members, rest, inner, tuple(keys), compares)


def _law(rule: JsonObject) -> CelRule:
    program = compiled(rule.get("rule") or "")
    said = rule.get("messageExpression")
    return CelRule(
        program,
        (rule.get("message") or "").strip(),
        compiled(said) if said else None,
        rule.get("reason") or "FieldValueInvalid",
        (rule.get("fieldPath") or "").replace("['", "[").replace("']", "]"),
        "oldSelf" in program.names,
        bool(rule.get("optionalOldSelf")),
    )


def broken(
    plan: CelRulePlan | None, obj: JsonObject, old: JsonObject | None, found: Sequence[FieldError]
) -> list[FieldError]:
    """Errors of an object by its CEL rules; `found` are the errors of its schema, some of which stop the check."""
    if plan is None:
        return []
    if any(error.reason in _BLOCKING for error in found):
        return [wrong(_NOWHERE, None, _NOT_CHECKED)]
    return list(_check(plan, _seen(obj), _ABSENT if old is None else _seen(old), ""))


def _seen(obj: JsonObject) -> JsonObject:
    """Objects as rules see them: of metadata, only the name."""
    metadata = obj.get("metadata") or {}
    return {**obj, "metadata": {key: metadata[key] for key in ("name", "generateName") if key in metadata}}


def _check(plan: CelRulePlan, value: Any, old: Any, at: str) -> Iterator[FieldError]:
    unchanged = old is not _ABSENT and value == old
    if unchanged and not plan.compares:
        return
    for law in plan.laws:
        if not (unchanged and not law.compares):
            yield from _ask(law, value, old, at)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name in sorted(value):
            inner = plan.members.get(name, plan.rest)
            if inner is not None and value[name] is not None:
                yield from _check(inner, value[name], before.get(name, _ABSENT), f"{at}.{name}" if at else name)
    elif isinstance(value, list) and plan.items is not None:
        known = _by_keys(old, plan.keys)
        for index, item in enumerate(value):
            same = known.get(_identity(item, plan.keys), _ABSENT) if known else _ABSENT
            yield from _check(plan.items, item, same, f"{at}[{index}]")


def _identity(item: Any, keys: tuple[str, ...]) -> str:
    return repr([item.get(key) for key in keys]) if isinstance(item, dict) else ""


def _by_keys(old: Any, keys: tuple[str, ...]) -> Mapping[str, Any]:
    return {_identity(item, keys): item for item in old} if keys and isinstance(old, list) else {}


def _ask(law: CelRule, value: Any, old: Any, at: str) -> Iterator[FieldError]:
    if law.compares and old is _ABSENT and not law.optional_old:
        return  # there is nothing to compare with
    variables = {"self": value}
    if law.optional_old:
        variables["oldSelf"] = CelOptional(False) if old is _ABSENT else CelOptional(True, old)
    elif old is not _ABSENT:
        variables["oldSelf"] = old
    place = (at + law.path).lstrip(".") or _NOWHERE
    try:
        if law.program.run(variables) is True:
            return
    except CelError as error:
        named = law.message or law.program.text
        quoted = json_type(value) if isinstance(value, dict | list) else value
        yield wrong(place, quoted, f"{error} evaluating rule: {named}")
        return
    yield _complaint(law, value, place, _message(law, variables))


def _message(law: CelRule, variables: Mapping[str, Any]) -> str:
    if law.expression is not None:
        try:
            said = law.expression.run(variables)
        except CelError:
            said = None
        if isinstance(said, str) and said.strip() and "\n" not in said:
            return said
    return law.message or f"failed rule: {law.program.text}"


def _complaint(law: CelRule, value: Any, place: str, message: str) -> FieldError:
    match law.reason:
        case "FieldValueForbidden":
            return forbidden_field(place, message)
        case "FieldValueRequired":
            return required(place, message)
        case "FieldValueDuplicate":
            return FieldError(place, law.reason, f"Duplicate value: {shown(value)}")
        case _ if law.path or isinstance(value, dict | list):
            return FieldError(place, law.reason, f"Invalid value: {message}")
        case _:
            return wrong(place, value, message)


def check_rules(schema: JsonObject, at: str) -> Iterator[FieldError]:
    """Errors for rules that cannot be compiled."""
    for index, rule in enumerate(schema.get(RULES) or []):
        for member in ("rule", "messageExpression"):
            if member == "rule" or rule.get(member):
                yield from _check_rule(rule, member, f"{at}.{RULES}[{index}].{member}")
    for name, inner in (schema.get("properties") or {}).items():
        yield from check_rules(inner, f"{at}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from check_rules(schema[name], f"{at}.{name}")


def _check_rule(rule: JsonObject, member: str, at: str) -> Iterator[FieldError]:
    text = rule.get(member) or ""
    if not text.strip():
        yield required(at, "rule is not specified")
        return
    try:
        compiled(text)
    except NotCel as error:
        names = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
        empty: dict[str, Any] = {"reason": None, "optionalOldSelf": None}
        quoted = {name[0].upper() + name[1:]: rule.get(name, empty.get(name, "")) for name in names}
        yield wrong(at, quoted, f"compilation failed: {error.marked(text)}")
