"""Objects out of Kubernetes' binary form (protobuf), which typed clients such as parts of kubectl write.

Only reading: answers are JSON, which those clients accept. What is not understood is refused, never dropped.
"""

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from ullage.kube.client.protobuf_writer import PROTOBUF
from ullage.sim.apiserver.storage.json_bytes import JsonObject, decode
from ullage.sim.apiserver.types.catalog import ObjectType, TypeField, catalog, find_type

__all__ = ["PROTOBUF", "NotReadable", "read_binary"]

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TYPE, _RAW = 1, 2

Tree = Mapping[int, Any]
"""By number: a Field, or the tree of an embedded message."""


class NotReadable(ValueError):
    """Not that form, or something in it that we do not know."""


def read_binary(body: bytes, fallback: str = "") -> JsonObject:
    """The object, saying what it is. `fallback` is what it is called where it does not say. Raises NotReadable."""
    if not body.startswith(_MAGIC):
        raise NotReadable("it does not begin as a Kubernetes protobuf message does")
    try:
        return _unwrapped(body[len(_MAGIC) :], fallback)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise NotReadable(f"the message is cut short or broken: {error}") from error


def _unwrapped(body: bytes, fallback: str) -> JsonObject:
    version = kind = ""
    raw = b""
    for number, _, value in _parts(body):
        if number == _TYPE:
            said = {inner: text.decode() for inner, _, text in _parts(value)}
            version, kind = said.get(1, ""), said.get(2, "")
        elif number == _RAW:
            raw = value
    kind = kind or fallback
    group, _, number_of = version.rpartition("/")
    found = catalog().get("meta.v1.DeleteOptions") if kind == "DeleteOptions" else find_type(group, number_of, kind)
    if found is None:
        raise NotReadable(f"{version} {kind} is known here in JSON only")
    return {"kind": kind, "apiVersion": version, **_message(raw, found)}


def _parts(body: bytes) -> Iterator[tuple[int, int, Any]]:
    at = 0
    while at < len(body):
        tag, at = _varint(body, at)
        wire = tag & 7
        value: Any
        if wire == _VARINT:
            value, at = _varint(body, at)
        elif wire == _BYTES:
            size, at = _varint(body, at)
            if at + size > len(body):
                raise NotReadable("the message is cut short")
            value, at = body[at : at + size], at + size
        elif wire == _FIXED64:
            (value,), at = struct.unpack_from("<d", body, at), at + 8
        else:
            raise NotReadable(f"wire type {wire} is not used by Kubernetes")
        yield tag >> 3, wire, value


def _varint(body: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = body[at]
        result |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return result, at
        shift += 7


@cache
def _tree(name: str) -> Tree:
    tree: dict[int, Any] = {}
    for one in catalog()[name].fields.values():
        node = tree
        for number in one.numbers[:-1]:
            node = node.setdefault(number, {})
        if one.numbers:
            node[one.numbers[-1]] = one
    return tree


def _message(body: bytes, kind: ObjectType) -> JsonObject:
    result: JsonObject = {}
    _fill(result, body, _tree(kind.name), kind.name)
    return result


def _fill(result: JsonObject, body: bytes, tree: Tree, owner: str) -> None:
    for number, _, value in _parts(body):
        found = tree.get(number)
        if found is None:
            if value:  # empty values are written for every field; only a said one is lost
                raise NotReadable(f"{owner} has no field number {number} here")
        elif isinstance(found, TypeField):
            _put(result, found, value)
        else:
            _fill(result, value, found, owner)


def _put(result: JsonObject, one: TypeField, value: Any) -> None:
    if one.type.startswith("map:"):
        pair = {number: inner for number, _, inner in _parts(value)}
        name, read = pair.get(1, b"").decode(), _value(one.type.removeprefix("map:"), pair.get(2, b""))
        result.setdefault(one.name, {})[name] = "" if read is None else read
    elif one.type.startswith("[]"):
        read = _value(one.type.removeprefix("[]"), value)
        result.setdefault(one.name, []).append("" if read is None else read)
    else:
        read = _value(one.type, value)
        if read is not None:
            result[one.name] = read


def _value(kind: str, value: Any) -> Any:
    """None where nothing is said: empty text, the zero time."""
    if (read := _SCALARS.get(kind)) is not None:
        return read(value)
    if kind.startswith("[]"):  # a list inside a map is a message of its own
        return [_value(kind.removeprefix("[]"), item) for _, _, item in _parts(value)]
    return _message(value, catalog()[kind])


def _int(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _quantity(value: bytes) -> str | None:
    return next((text.decode() for number, _, text in _parts(value) if number == 1), None)


def _int_or_string(value: bytes) -> int | str:
    said = {number: inner for number, _, inner in _parts(value)}
    return said.get(3, b"").decode() if said.get(1) else _int(said.get(2, 0))


def _time(value: bytes, form: str = "%Y-%m-%dT%H:%M:%SZ") -> str | None:
    said = {number: inner for number, _, inner in _parts(value)}
    if not said:
        return None
    moment = datetime.fromtimestamp(_int(said.get(1, 0)), UTC)
    return moment.replace(microsecond=said.get(2, 0) // 1000).strftime(form)


def _any(value: bytes) -> Any:
    raw = next((inner for number, _, inner in _parts(value) if number == 1), b"")
    return decode(raw) if raw else None


_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "string": lambda value: value.decode() or None,
    "bytes": lambda value: base64.b64encode(value).decode(),
    "bool": bool,
    "int32": _int,
    "int64": _int,
    "double": float,
    "quantity": _quantity,
    "intOrString": _int_or_string,
    "time": _time,
    "microtime": lambda value: _time(value, "%Y-%m-%dT%H:%M:%S.%fZ"),
    "object": _any,
    "fields": _any,
}
