"""Objects as a typed decoder reads them: wrong types are refused, unknown fields and empty values fall away.

An ObjectSchema has the fields of an object with their types; `object_schemas` derives those of built-in kinds. `typed`
gives back what a server that only knows these fields would store: what Go's JSON decoding and encoding do to an object.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import msgspec

from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.types.quantities import canonical

Compiled = tuple[Any, Any]
"""Type of a member for msgspec, and the value that is left out; None for no such value."""


class QuantityText(str):
    """A quantity, in canonical form."""

    __slots__ = ()


class MicroTime(str):
    """A moment with microseconds."""

    __slots__ = ()


class Base64Text(str):
    """Bytes in base64."""

    __slots__ = ()


_MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_COMPLAINT = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<found>[^`]*)`(?: - at `\$(?P<path>[^`]*)`)?")
_GO_TYPES = {"str": "string", "int": "int32", "array": "[]object", "int | str": "intstr.IntOrString"}
_JSON_TYPES = {"str": "string", "int": "number", "float": "number"}
_OWN_WORDS = "server: "


class WrongType(Exception):
    """The sentence a decoder would say."""


class ObjectSchema:
    """The fields of a kind. What is not named at the top is dropped if the shape is closed, and kept if it is open."""

    def __init__(self, fields: Callable[[], Mapping[str, Compiled]], *, closed: bool = True) -> None:
        """`fields` is called once, on first use: a server has more kinds than a test looks at."""
        self._fields = fields
        self._closed = closed

    @cached_property
    def _types(self) -> Mapping[str, Compiled]:
        return self._fields()

    def typed(self, obj: JsonObject, owner: str, only: tuple[str, ...] = ()) -> JsonObject:
        """The object as it would be stored. Raises WrongType, speaking of `owner`. Looks at `only` some members."""
        result: JsonObject = {}
        for name, value in obj.items():
            if name in ("kind", "apiVersion") or (only and name not in only):
                result[name] = value
            elif name in self._types:
                if value is not None:
                    kind, empty = self._types[name]
                    read = _converted(value, kind, name, owner)
                    if empty is None or read != empty:
                        result[name] = read
            elif not self._closed:
                result[name] = value
        return result


def _converted(value: Any, kind: Any, name: str, owner: str) -> Any:
    try:
        return msgspec.to_builtins(msgspec.convert(value, kind, dec_hook=_read), enc_hook=str)
    except msgspec.ValidationError as error:
        raise WrongType(_in_server_words(str(error), name, owner)) from error


def _read(kind: type, value: Any) -> Any:
    """The types a decoder reads with code of its own."""
    if kind is QuantityText:
        try:
            return QuantityText(canonical(value if isinstance(value, str) else str(value)))
        except ValueError as error:
            pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
            message = f"{_OWN_WORDS}quantities must match the regular expression '{pattern}'"
            raise msgspec.ValidationError(message) from error
    if kind is MicroTime:
        return _read_time(value)
    if not isinstance(value, str) or _BASE64.fullmatch(value) is None:
        raise msgspec.ValidationError(f"{_OWN_WORDS}illegal base64 data at input byte 0")
    return Base64Text(value)


def _read_time(value: Any) -> MicroTime:
    if isinstance(value, str) and _MICRO.fullmatch(value):
        if value.endswith("Z"):
            return MicroTime(value)
        moment = datetime.fromisoformat(value).astimezone(UTC)
        return MicroTime(moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    layout = "2006-01-02T15:04:05.000000Z07:00"
    raise msgspec.ValidationError(f'{_OWN_WORDS}parsing time "{value}" as "{layout}": cannot parse "{value}"')


def _in_server_words(complaint: str, member: str, owner: str) -> str:
    if complaint.startswith(_OWN_WORDS):
        return complaint.removeprefix(_OWN_WORDS).partition(" - at `$")[0]
    match = _COMPLAINT.fullmatch(complaint)
    if match is None:
        return complaint
    wanted = match["wanted"].removesuffix(" | null")
    found, path = match["found"], member + (match["path"] or "").replace("[...]", "")
    said = f"json: cannot unmarshal {_JSON_TYPES.get(found, found)} into Go struct field {owner}.{path}"
    return f"{said} of type {_GO_TYPES.get(wanted, wanted)}"
