"""Objects in the API server's own binary form, which it reads in a fraction of the time it takes for JSON.

Only the few kinds a scheduler writes for every pod, and only the fields they are written with: whatever else there is
in an object, it goes as JSON. The numbers are those of the `generated.proto` files of the Kubernetes API.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from ullage.kube.client.resource import JsonObject

PROTOBUF = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_BYTES, _VARINT = 2, 0
_WITH_MICROSECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII).fullmatch

_Field = Callable[[Any], bytes]
_Message = Mapping[str, _Field]


def compact(written: JsonObject) -> bytes | None:
    """The binary form of an object that says what it is; None where we do not know how to write it."""
    kind = (written.get("apiVersion"), written.get("kind"))
    message = _KINDS.get(kind)
    if message is None:
        return None
    fields = {name: value for name, value in written.items() if name not in ("apiVersion", "kind")}
    try:
        raw = _encode(message, fields)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # the server says better than we what is wrong with it
    return _ENVELOPES[kind] + _RAW + _varint(len(raw)) + raw


def _encode(message: _Message, value: Mapping[str, Any]) -> bytes:
    return b"".join([message[name](inner) for name, inner in value.items()])


def _varint(number: int) -> bytes:
    if 0 <= number < 0x80:
        return _SMALL[number]
    if number < 0:
        number += 1 << 64
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


_SMALL = tuple(bytes((number,)) for number in range(0x80))


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _text(number: int) -> _Field:
    tag = _tag(number, _BYTES)

    def field(text: str) -> bytes:
        raw = text.encode()
        return tag + _varint(len(raw)) + raw

    return field


def _number(number: int) -> _Field:
    tag = _tag(number, _VARINT)

    def field(value: int) -> bytes:
        if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
            raise ValueError(value)
        return tag + _varint(value)

    return field


def _message(number: int, message: _Message) -> _Field:
    tag = _tag(number, _BYTES)

    def field(value: Mapping[str, Any]) -> bytes:
        raw = _encode(message, value)
        return tag + _varint(len(raw)) + raw

    return field


def _texts(number: int) -> _Field:
    """A map of strings: a message of key and value for each entry."""
    tag, key, value = _tag(number, _BYTES), _text(1), _text(2)

    def field(entries: Mapping[str, str]) -> bytes:
        pairs = [key(name) + value(text) for name, text in entries.items()]
        return b"".join([tag + _varint(len(pair)) + pair for pair in pairs])

    return field


def _timestamp(number: int) -> _Field:
    """Seconds and nanoseconds, from RFC 3339 with microseconds: other moments are the server's to refuse."""
    tag, seconds, nanoseconds = _tag(number, _BYTES), _tag(1, _VARINT), _tag(2, _VARINT)

    def field(text: str) -> bytes:
        if not _WITH_MICROSECONDS(text):
            raise ValueError(text)
        moment = datetime.fromisoformat(text)
        raw = seconds + _varint(int(moment.replace(microsecond=0).timestamp()))
        raw += nanoseconds + _varint(moment.microsecond * 1000)
        return tag + _varint(len(raw)) + raw

    return field


_META: _Message = {
    "name": _text(1),
    "generateName": _text(2),
    "namespace": _text(3),
    "uid": _text(5),
    "resourceVersion": _text(6),
    "labels": _texts(11),
    "annotations": _texts(12),
}
_REFERENCE: _Message = {
    "kind": _text(1),
    "namespace": _text(2),
    "name": _text(3),
    "uid": _text(4),
    "apiVersion": _text(5),
}
_LEASE: _Message = {
    "metadata": _message(1, _META),
    "spec": _message(
        2,
        {
            "holderIdentity": _text(1),
            "leaseDurationSeconds": _number(2),
            "acquireTime": _timestamp(3),
            "renewTime": _timestamp(4),
            "leaseTransitions": _number(5),
        },
    ),
}
_BINDING: _Message = {"metadata": _message(1, _META), "target": _message(2, _REFERENCE)}
_EVENT: _Message = {
    "metadata": _message(1, _META),
    "eventTime": _timestamp(2),
    "series": _message(3, {"count": _number(1), "lastObservedTime": _timestamp(2)}),
    "reportingController": _text(4),
    "reportingInstance": _text(5),
    "action": _text(6),
    "reason": _text(7),
    "regarding": _message(8, _REFERENCE),
    "related": _message(9, _REFERENCE),
    "note": _text(10),
    "type": _text(11),
}

_KINDS: Mapping[tuple[Any, Any], _Message] = {
    ("coordination.k8s.io/v1", "Lease"): _LEASE,
    ("v1", "Binding"): _BINDING,
    ("events.k8s.io/v1", "Event"): _EVENT,
}
_TYPE: _Message = {"apiVersion": _text(1), "kind": _text(2)}
_RAW = _tag(2, _BYTES)
_ENVELOPES = {kind: _MAGIC + _message(1, _TYPE)(dict(zip(_TYPE, kind, strict=True))) for kind in _KINDS}
"""Bytes that precede an object of each kind: the magic number, then apiVersion and kind."""
