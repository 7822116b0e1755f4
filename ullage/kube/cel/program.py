"""Compile a tree to closures. Each takes the variables and returns the value."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ullage.kube.cel.errors import CelError, NotCel
from ullage.kube.cel.library import FUNCTIONS, METHODS
from ullage.kube.cel.macros import MACROS, Evaluate, Variables
from ullage.kube.cel.parser import CelNode, parse
from ullage.kube.cel.values import (
    TYPES,
    CelOptional,
    add,
    arithmetic,
    contains,
    equal,
    field_name,
    is_number,
    no_overload,
    ordered,
    subtract,
)

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": equal,
    "!=": lambda one, other: not equal(one, other),
    "<": ordered("<", operator.lt),
    "<=": ordered("<=", operator.le),
    ">": ordered(">", operator.gt),
    ">=": ordered(">=", operator.ge),
    "in": contains,
    "+": add,
    "-": subtract,
    "*": arithmetic("*"),
    "/": arithmetic("/"),
    "%": arithmetic("%"),
}


@dataclass(frozen=True, slots=True)
class CelProgram:
    """Compiled expression. `names` are the variables it uses."""

    text: str
    names: frozenset[str]
    run: Evaluate
    """Evaluate the expression. Raises CelError."""


@lru_cache(1024)
def compiled(text: str) -> CelProgram:
    """Compile an expression. Raises NotCel."""
    try:
        tree = parse(text)
        return CelProgram(text, frozenset(_names(tree)), _compile(tree))
    except RecursionError:
        raise NotCel("expression recursion limit exceeded") from None


def _names(node: CelNode) -> list[str]:
    own = [node.name] if node.op == "name" else []
    return own + [name for part in node.parts for name in _names(part)]


def _compile(node: CelNode) -> Evaluate:
    match node.op:
        case "value":
            value = node.value
            return lambda _: value
        case "name":
            return _variable(node)
        case "select":
            return _select(node)
        case "index":
            return _index(node)
        case "call":
            return _call(node)
        case "list":
            items = [_compile(part) for part in node.parts]
            return lambda variables: [item(variables) for item in items]
        case "map":
            return _map(node)
        case _:
            return _operation(node)


def _operation(node: CelNode) -> Evaluate:
    parts = [_compile(part) for part in node.parts]
    match node.op:
        case "?:":
            condition, yes, no = parts
            return lambda variables: yes(variables) if _truth(condition(variables)) else no(variables)
        case "||" | "&&":
            return _logic(parts[0], parts[1], decisive=node.op == "||")
        case "not":
            (inner,) = parts
            return lambda variables: not _truth(inner(variables))
        case "negative":
            return _negative(parts[0])
    left, right, calculate = parts[0], parts[1], _OPERATORS[node.op]
    return lambda variables: calculate(left(variables), right(variables))


def _negative(inner: Evaluate) -> Evaluate:
    def run(variables: Variables) -> Any:
        value = inner(variables)
        if not is_number(value):
            raise no_overload("-_", value)
        return -value

    return run


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise no_overload("_?_:_", value)
    return value


def _logic(left: Evaluate, right: Evaluate, *, decisive: bool) -> Evaluate:
    """Either side may decide alone, even where the other one has no value."""

    def run(variables: Variables) -> bool:
        try:
            if _truth(left(variables)) is decisive:
                return decisive
        except CelError:
            if _truth(right(variables)) is decisive:
                return decisive
            raise
        return _truth(right(variables))

    return run


def _variable(node: CelNode) -> Evaluate:
    name = node.name
    kind = TYPES.get(name)

    def run(variables: Variables) -> Any:
        if name in variables:
            return variables[name]
        if kind is not None:
            return kind
        raise CelError(f"no such attribute: {name}")

    return run


def _select(node: CelNode) -> Evaluate:
    target, name, optional = _compile(node.parts[0]), field_name(node.name), node.optional

    def run(variables: Variables) -> Any:
        found = target(variables)
        if isinstance(found, CelOptional):
            return _optional_member(found, name)
        if optional:
            return _optional_member(CelOptional(True, found), name)
        if not isinstance(found, dict):
            raise no_overload(f"select {name}", found)
        if name not in found:
            raise CelError(f"no such key: {name}")
        return found[name]

    return run


def _optional_member(holder: CelOptional, key: Any) -> CelOptional:
    if holder.found and isinstance(holder.value, dict) and key in holder.value:
        return CelOptional(True, holder.value[key])
    if holder.found and isinstance(holder.value, list) and isinstance(key, int) and 0 <= key < len(holder.value):
        return CelOptional(True, holder.value[key])
    return CelOptional(False)


def _index(node: CelNode) -> Evaluate:
    target, key, optional = _compile(node.parts[0]), _compile(node.parts[1]), node.optional

    def run(variables: Variables) -> Any:
        found, wanted = target(variables), key(variables)
        if optional or isinstance(found, CelOptional):
            return _optional_member(found if isinstance(found, CelOptional) else CelOptional(True, found), wanted)
        if isinstance(found, dict):
            if wanted not in found:
                raise CelError(f"no such key: {wanted}")
            return found[wanted]
        if isinstance(found, list) and isinstance(wanted, int) and not isinstance(wanted, bool):
            if not 0 <= wanted < len(found):
                raise CelError(f"index out of bounds: {wanted}")
            return found[wanted]
        raise no_overload("_[_]", found, wanted)

    return run


def _map(node: CelNode) -> Evaluate:
    keys = [_compile(part) for part in node.parts[::2]]
    values = [_compile(part) for part in node.parts[1::2]]
    return lambda variables: {key(variables): value(variables) for key, value in zip(keys, values, strict=True)}


def _call(node: CelNode) -> Evaluate:
    macro = MACROS.get((node.name, node.member, len(node.parts)))
    if macro is not None:
        return macro(node, _compile)
    function = (METHODS if node.member else FUNCTIONS).get(node.name)
    if function is None:
        raise NotCel(f"undeclared reference to '{node.name}' (in container '')", node.at + len(node.name))
    arguments = [_compile(part) for part in node.parts]

    def run(variables: Variables) -> Any:
        values = [argument(variables) for argument in arguments]
        try:
            return function(*values)
        except (TypeError, AttributeError):
            raise no_overload(node.name, *values) from None

    return run
