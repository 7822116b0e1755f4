"""Objects to JSON and back: decoders by type, made once, and the encoding of structs.

Everything is decoded at once and nothing keeps a view of the bytes it came from, so that a page of a list can be freed
while its objects live on.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from ullage.errors import Unreadable
from ullage.kube.client.api import Body
from ullage.kube.client.resource import JsonObject, Resource

T = TypeVar("T")

encode = msgspec.json.Encoder().encode


class ListMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Metadata of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int = 0


class ObjectList(msgspec.Struct, Generic[T]):
    """One page of a list on the wire. Go writes a nil list as null."""

    kind: str = ""
    items: list[T] | None = None
    metadata: ListMeta = ListMeta()


class RawEvent(msgspec.Struct, gc=False):
    """One line of a watch, its object not yet looked at: what it is depends on `type`."""

    type: str
    object: msgspec.Raw


class _VersionOnly(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""


class Versioned(msgspec.Struct, gc=False):
    """Any object, of which only the resourceVersion matters; bookmarks carry no more that is valid."""

    metadata: _VersionOnly


decode_event = msgspec.json.Decoder(RawEvent).decode
decode_versioned = msgspec.json.Decoder(Versioned).decode


def decode_object(resource: Resource[T], body: bytes | msgspec.Raw, what: str) -> T:
    """Decode one object of this resource. Raises Unreadable."""
    try:
        return cast(T, _object_decoder(resource.reads_as).decode(body))
    except msgspec.DecodeError as error:
        raise Unreadable(f"{what}: the answer is not a readable {resource.kind}: {error}") from error


def decode_list(resource: Resource[T], body: bytes, what: str) -> ObjectList[T]:
    """Decode one page of this resource. Raises Unreadable."""
    try:
        page = cast(ObjectList[T], _list_decoder(resource.reads_as).decode(body))
    except msgspec.DecodeError as error:
        raise Unreadable(f"{what}: the answer is not a readable list of {resource.kind}: {error}") from error
    # Any JSON object would pass for an empty list, and an empty list means that everything is gone.
    if not page.kind.endswith("List"):
        raise Unreadable(f"{what}: the answer is not a list of {resource.kind}; its kind is {page.kind!r}")
    return page


def decode_as(kind: type[T], body: bytes, what: str) -> T:
    """Decode any other body of an API server. Raises Unreadable."""
    try:
        return cast(T, _object_decoder(kind).decode(body))
    except msgspec.DecodeError as error:
        raise Unreadable(f"{what}: the answer is not readable: {error}") from error


_object_decoders: dict[object, msgspec.json.Decoder[Any]] = {}
_list_decoders: dict[object, msgspec.json.Decoder[Any]] = {}


def _object_decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    if kind not in _object_decoders:
        _object_decoders[kind] = msgspec.json.Decoder(kind)
    return _object_decoders[kind]


def _list_decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    if kind not in _list_decoders:
        listed = ObjectList[kind]  # type: ignore[valid-type]  # known only when it runs
        _list_decoders[kind] = msgspec.json.Decoder(listed)
    return _list_decoders[kind]


def version_of(thing: object) -> str:
    """The resourceVersion of a decoded object, struct or dict; empty where it has none."""
    if isinstance(thing, dict):
        meta = thing.get("metadata")
        return str(meta.get("resourceVersion", "")) if isinstance(meta, dict) else ""
    return str(cast(Any, thing).metadata.resource_version)


def whole_object(resource: Resource[Any], body: Body) -> JsonObject:
    """Return `body` as plain JSON with apiVersion and kind, ready to be sent."""
    written: JsonObject = to_json(body)
    return written | {
        "apiVersion": written.get("apiVersion") or resource.api_version,
        "kind": written.get("kind") or resource.kind,
    }


_AS_IT_IS = frozenset((str, int, bool, float, type(None)))


def to_json(value: Any) -> Any:
    """A struct, or anything that holds structs, as plain JSON.

    A field is left out only if it has its default value *and* that is an empty one. Defaults such as maxSkew 1 are what
    the API server requires to be spelled out, so msgspec's own `omit_defaults` would lose them.
    """
    if type(value) in _AS_IT_IS:
        return value
    if isinstance(value, msgspec.Struct):
        return _struct_to_json(value)
    if isinstance(value, Mapping):
        return {key: inner if type(inner) in _AS_IT_IS else to_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(inner) for inner in value]
    return value


def is_left_out(field: msgspec.structs.FieldInfo, value: Any) -> bool:
    """True if a struct's field need not be written: it has its default, and the default is empty."""
    return not value and value == _default_of(field)


def _struct_to_json(struct: msgspec.Struct) -> JsonObject:
    written: JsonObject = {}
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if not value and is_left_out(field, value):
            continue
        inner = value if type(value) in _AS_IT_IS else to_json(value)
        if inner or not isinstance(value, msgspec.Struct) or field.default is None:
            written[field.encode_name] = inner
    return written


@cache
def fields_of(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a struct type, looked up once."""
    return msgspec.structs.fields(kind)


def _default_of(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default
