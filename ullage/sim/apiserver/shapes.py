"""Which JSON type a field must have before anybody looks at its value: what a typed decoder refuses.

Only fields the rules read are listed; others are kept as they are.
"""

from collections.abc import Mapping
from typing import Any

from ullage.model.quantity import quantity

Shape = Any
"""`str`, `int`, `bool`; `{...}` an object of such; `[shape]` a list; `STRINGS`; `AMOUNTS`; None: anything."""


class _Map:
    """A map with one type of value."""

    def __init__(self, name: str) -> None:
        self.name = name


STRINGS = _Map("string")
AMOUNTS = _Map("resource.Quantity")
INT_OR_STRING = (int, str)
_NAMES = {str: "string", int: "int32", bool: "bool"}
_QUANTITY_WORDS = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

METADATA: Mapping[str, Shape] = {
    "name": str, "generateName": str, "namespace": str, "uid": str, "resourceVersion": str, "labels": STRINGS,
    "annotations": STRINGS, "finalizers": [str],
    "ownerReferences": [{"apiVersion": str, "kind": str, "name": str, "uid": str, "controller": bool}],
}  # fmt: skip


class WrongType(Exception):
    """The sentence a decoder would say."""


def check_shape(value: Any, shape: Shape, path: str = "", owner: str = "") -> None:
    """Raises WrongType for the first field of another type. Null fits everything."""
    if value is None or shape is None:
        return
    if isinstance(shape, Mapping):
        _check_members(value, shape, path, owner)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise _mismatch(value, path, owner, "[]" + _go_type(shape[0]))
        for item in value:
            check_shape(item, shape[0], path, owner)
    elif isinstance(shape, _Map):
        _check_map(value, shape, path, owner)
    elif not _is_scalar(value, shape):
        raise _mismatch(value, path, owner, _go_type(shape))


def _check_members(value: Any, shape: Mapping[str, Shape], path: str, owner: str) -> None:
    if not isinstance(value, dict):
        raise _mismatch(value, path, owner, "object")
    for name, member in shape.items():
        if name in value:
            check_shape(value[name], member, f"{path}.{name}" if path else name, owner)


def _check_map(value: Any, shape: _Map, path: str, owner: str) -> None:
    if not isinstance(value, dict):
        raise _mismatch(value, path, owner, f"map[string]{shape.name}")
    for item in value.values():
        if shape is STRINGS:
            if not isinstance(item, str):
                raise _mismatch(item, path, owner, "string")
            continue
        try:
            quantity(item)
        except ValueError as error:
            raise WrongType(_QUANTITY_WORDS) from error


def _is_scalar(value: Any, shape: Shape) -> bool:
    if isinstance(value, bool):
        return shape is bool
    return isinstance(value, shape)


def _mismatch(value: Any, path: str, owner: str, wanted: str) -> WrongType:
    return WrongType(f"json: cannot unmarshal {_json_name(value)} into Go struct field {owner}.{path} of type {wanted}")


def _json_name(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (str, "string"), ((int, float), "number"), (list, "array"), (dict, "object"),
    )  # fmt: skip
    return next((name for kind, name in names if isinstance(value, kind)), "null")


def _go_type(shape: Shape) -> str:
    if isinstance(shape, type):
        return _NAMES.get(shape, "object")
    return "intstr.IntOrString" if shape == INT_OR_STRING else "object"
