"""Macros: `has`, and comprehensions over lists and maps. Their arguments are not evaluated first."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ullage.kube.cel.errors import CelError, NotCel
from ullage.kube.cel.parser import CelNode
from ullage.kube.cel.values import CelOptional, field_name, no_overload

Variables = Mapping[str, Any]
Evaluate = Callable[[Variables], Any]
Compile = Callable[[CelNode], Evaluate]
Macro = Callable[[CelNode, Compile], Evaluate]


def _has(node: CelNode, compile_: Compile) -> Evaluate:
    (argument,) = node.parts
    if argument.op != "select":
        raise NotCel("invalid argument to has() macro", argument.at)
    holder, name = compile_(argument.parts[0]), field_name(argument.name)

    def run(variables: Variables) -> bool:
        found = holder(variables)
        if isinstance(found, CelOptional):
            found = found.value if found.found else {}
        if not isinstance(found, dict):
            raise no_overload(f"has {name}", found)
        return found.get(name) is not None

    return run


def _items(value: Any) -> Iterator[Any]:
    if not isinstance(value, list | dict):
        raise no_overload("@iterate", value)
    return iter(value)


def _bound(node: CelNode, compile_: Compile) -> tuple[Evaluate, str, list[Evaluate]]:
    """Compile the parts of a macro: its range, the name of its loop variable, its bodies."""
    target, name, *bodies = node.parts
    if name.op != "name":
        raise NotCel("argument must be a simple name", name.at)
    return compile_(target), name.name, [compile_(body) for body in bodies]


def _true(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise no_overload(name, value)
    return value


def _quantifier(*, decisive: bool) -> Macro:
    """`exists` is decided by a yes, `all` by a no; an item without a value counts only if nothing decides."""

    def macro(node: CelNode, compile_: Compile) -> Evaluate:
        target, name, (body,) = _bound(node, compile_)

        def run(variables: Variables) -> bool:
            failure: CelError | None = None
            for item in _items(target(variables)):
                try:
                    if _true(body({**variables, name: item}), node.name) is decisive:
                        return decisive
                except CelError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return not decisive

        return run

    return macro


def _exists_one(node: CelNode, compile_: Compile) -> Evaluate:
    target, name, (body,) = _bound(node, compile_)
    return lambda variables: (
        sum(1 for item in _items(target(variables)) if _true(body({**variables, name: item}), node.name)) == 1
    )


def _filter(node: CelNode, compile_: Compile) -> Evaluate:
    target, name, (body,) = _bound(node, compile_)
    return lambda variables: [
        item for item in _items(target(variables)) if _true(body({**variables, name: item}), node.name)
    ]


def _map(node: CelNode, compile_: Compile) -> Evaluate:
    target, name, bodies = _bound(node, compile_)
    wanted, body = (bodies[0], bodies[1]) if len(bodies) == 2 else (None, bodies[0])

    def run(variables: Variables) -> list[Any]:
        inner = [{**variables, name: item} for item in _items(target(variables))]
        return [body(each) for each in inner if wanted is None or _true(wanted(each), node.name)]

    return run


MACROS: Mapping[tuple[str, bool, int], Macro] = {
    ("has", False, 1): _has,
    ("all", True, 3): _quantifier(decisive=False),
    ("exists", True, 3): _quantifier(decisive=True),
    ("exists_one", True, 3): _exists_one,
    ("filter", True, 3): _filter,
    ("map", True, 3): _map,
    ("map", True, 4): _map,
}
"""By name, whether it is called on something, and the number of its parts."""
