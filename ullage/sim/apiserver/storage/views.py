"""Stored objects as a served version shows them, and lists of them."""

from collections.abc import Sequence

from ullage.sim.apiserver.kinds.kind import ServedKind
from ullage.sim.apiserver.storage.json_bytes import JsonObject, copied, encode
from ullage.sim.apiserver.storage.store import StoredObject


def outward(kind: ServedKind, obj: JsonObject) -> JsonObject:
    """A stored object in the version asked for. The result may share parts with the original."""
    if kind.outward is not None:
        obj = kind.outward(copied(obj))
    if obj.get("apiVersion") == kind.api_version and obj.get("kind") == kind.kind:
        return obj
    return {**obj, "apiVersion": kind.api_version, "kind": kind.kind}


def inward(kind: ServedKind, obj: JsonObject) -> JsonObject:
    """An object as it was sent, in the version it is stored in, with its type first. The result is the caller's."""
    if kind.inward is not None:
        obj = kind.inward(obj)
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    return {"kind": kind.kind, "apiVersion": kind.storage_version, **rest}


def encoded(kind: ServedKind, stored: StoredObject) -> bytes:
    if kind.outward is None and kind.api_version == kind.storage_version:
        return stored.body
    return encode(outward(kind, stored.obj))


def list_body(kind: ServedKind, items: Sequence[StoredObject], metadata: JsonObject) -> bytes:
    """A list. Items of built-in kinds do not repeat their type; those of custom kinds do."""
    head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata}
    bodies = [encoded(kind, item) for item in items]
    if not kind.custom:
        prefix = encode({"kind": kind.kind, "apiVersion": kind.api_version})[:-1] + b","
        bodies = [b"{" + body[len(prefix) :] if body.startswith(prefix) else body for body in bodies]
    return encode(head)[:-1] + b',"items":[' + b",".join(bodies) + b"]}"
