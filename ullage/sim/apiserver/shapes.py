"""Which JSON type a field must have before anybody looks at its value: what a typed decoder refuses.

Only fields the rules read are listed; others are kept as they are.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ullage.sim.apiserver.quantities import canonical

Members = Mapping[str, Any]
"""By name: `str`, `int`, `bool`; `{...}` an object of such; `[item]` a list; `STRINGS`; `AMOUNTS`."""


class Amount:
    """A quantity, in whichever way it is written."""


STRINGS = dict[str, str]
AMOUNTS = dict[str, Amount]
INT_OR_STRING = int | str

METADATA: Members = {
    "name": str, "generateName": str, "namespace": str, "uid": str, "resourceVersion": str, "labels": STRINGS,
    "annotations": STRINGS, "finalizers": [str],
    "ownerReferences": [{"apiVersion": str, "kind": str, "name": str, "uid": str, "controller": bool}],
}  # fmt: skip

_COMPLAINT = re.compile(r"Expected `(?P<wanted>.*)`, got `(?P<found>.*)` - at `\$\.?(?P<path>.*)`")
_GO_TYPES = {"str": "string", "int": "int32", "array": "[]object", "int | str": "intstr.IntOrString"}
_JSON_TYPES = {"str": "string", "int": "number", "float": "number"}
_QUANTITY_WORDS = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class WrongType(Exception):
    """The sentence a decoder would say."""


class Shape:
    """The types of an object's fields. Null fits everything."""

    def __init__(self, members: Members) -> None:
        self._type = _compiled(members)

    def check(self, obj: Any, owner: str) -> None:
        """Raises WrongType for the first field of another type; `owner` is the kind it says so about."""
        try:
            msgspec.convert(obj, self._type, dec_hook=_read_amount)
        except msgspec.ValidationError as error:
            raise WrongType(_in_server_words(str(error), owner)) from error


def _compiled(shape: Any) -> Any:
    if isinstance(shape, Mapping):
        fields = [(name, _compiled(member) | None, None) for name, member in shape.items()]
        return msgspec.defstruct("Members", fields)
    return list[_compiled(shape[0])] if isinstance(shape, list) else shape  # type: ignore[misc]  # built at run time


def _read_amount(_kind: type, value: Any) -> Any:
    """A quantity is canonicalised elsewhere; here it only has to be one."""
    try:
        return canonical(value if isinstance(value, str) else str(value))
    except ValueError as error:
        raise msgspec.ValidationError(_QUANTITY_WORDS) from error


def _in_server_words(complaint: str, owner: str) -> str:
    if complaint.startswith(_QUANTITY_WORDS):
        return _QUANTITY_WORDS
    match = _COMPLAINT.fullmatch(complaint)
    if match is None:
        return complaint
    wanted = match["wanted"].removesuffix(" | null")
    found, path = match["found"], match["path"].replace("[...]", "")
    said = f"json: cannot unmarshal {_JSON_TYPES.get(found, found)} into Go struct field {owner}.{path}"
    return f"{said} of type {_GO_TYPES.get(wanted, wanted)}"
