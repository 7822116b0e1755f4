"""Read, change, write back: typed, and without losing a field that our structs do not know.

Our structs are lenses: what they leave out must survive a write. So the change is made on the struct, and only what it
changed is carried over to the JSON that was read.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ullage.errors import Conflict, Unreadable
from ullage.kube.client.api import KubeApi
from ullage.kube.client.json_codec import decode_object, encode, fields_of, is_left_out, to_json
from ullage.kube.client.resource import JsonObject, Resource

T = TypeVar("T")

_WAITS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Seconds between attempts."""
_IDENTITIES = ("uid", "name", "key", "type", "containerPort", "topologyKey")
"""Fields that identify an item of a list, most specific first: the merge keys of Kubernetes' own lists."""


async def edit(
    api: KubeApi,
    resource: Resource[T],
    name: str,
    namespace: str,
    change: Callable[[T], T],
    *,
    subresource: str = "",
) -> T:
    """Change an object as it is now. `change` may be called several times: other clients may write in between.

    If it changes nothing, nothing is written. Raises Conflict if others were always faster.
    """

    async def attempt() -> T:
        raw = await api.get(resource.whole(), name, namespace)
        before = _decoded(resource, raw)
        # Its own copy: a change made in place is a change, too.
        after = change(decode_object(resource, encode(raw), f"edit {resource.id} {name}"))
        if after == before:
            return before
        return await api.replace(resource, graft(raw, before, after), subresource=subresource)

    for wait in _WAITS:
        try:
            return await attempt()
        except Conflict:
            await asyncio.sleep(wait)
    return await attempt()


def _decoded(resource: Resource[T], raw: JsonObject) -> T:
    try:
        return msgspec.convert(raw, resource.reads_as)
    except msgspec.ValidationError as error:
        raise Unreadable(f"{resource.id}: not a readable {resource.kind}: {error}") from error


def graft(raw: JsonObject, before: object, after: object) -> JsonObject:
    """`raw`, with what differs between `before` (which was decoded from it) and `after`. Changes none of the three."""
    grafted = _graft(raw, before, after)
    return grafted if isinstance(grafted, dict) else dict(raw)


def _graft(raw: Any, before: Any, after: Any) -> Any:
    if before == after:
        return raw
    if isinstance(after, msgspec.Struct) and type(before) is type(after):
        return _graft_struct(raw if isinstance(raw, dict) else {}, before, after)
    if isinstance(after, Mapping) and isinstance(before, Mapping) and isinstance(raw, dict):
        return _graft_mapping(raw, before, after)
    if _is_list(after) and _is_list(before) and isinstance(raw, list) and len(raw) == len(before):
        return _graft_list(raw, before, after)
    return to_json(after)


def _graft_struct(raw: JsonObject, before: msgspec.Struct, after: msgspec.Struct) -> JsonObject:
    grafted = dict(raw)
    for field in fields_of(type(after)):
        key, old, new = field.encode_name, getattr(before, field.name), getattr(after, field.name)
        if old == new:
            continue
        if is_left_out(field, new):
            grafted.pop(key, None)
        else:
            grafted[key] = _graft(raw.get(key), old, new)
    return grafted


def _graft_mapping(raw: JsonObject, before: Mapping[str, Any], after: Mapping[str, Any]) -> JsonObject:
    grafted = {key: value for key, value in raw.items() if key in after or key not in before}
    for key, new in after.items():
        if key not in before:
            grafted[key] = to_json(new)
        elif before[key] != new:
            grafted[key] = _graft(raw.get(key), before[key], new)
    return grafted


def _graft_list(raw: list[Any], before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    origins = _origins(before, after)
    return [
        to_json(new) if origin is None else _graft(raw[origin], before[origin], new)
        for new, origin in zip(after, origins, strict=True)
    ]


def _origins(before: Sequence[Any], after: Sequence[Any]) -> list[int | None]:
    """For each item of `after`, the item of `before` that it was: the same, or of the same name, or at its place."""
    free = list(range(len(before)))
    origins: list[int | None] = [None] * len(after)

    def claim(same: Callable[[int, int], bool]) -> None:
        for place in range(len(after)):
            if origins[place] is None:
                found = next((old for old in free if same(old, place)), None)
                if found is not None:
                    free.remove(found)
                    origins[place] = found

    claim(lambda old, place: old == place and before[old] == after[place])
    claim(lambda old, place: bool(before[old] == after[place]))
    claim(lambda old, place: _identity(after[place]) is not None and _identity(before[old]) == _identity(after[place]))
    # Only items without a name of their own are taken for what stood at their place.
    claim(lambda old, place: old == place and _identity(before[old]) is None and _identity(after[place]) is None)
    return origins


def _identity(item: Any) -> tuple[str, Any] | None:
    if isinstance(item, msgspec.Struct):
        named = {field.encode_name: getattr(item, field.name) for field in fields_of(type(item))}
    elif isinstance(item, Mapping):
        named = dict(item)
    else:
        return None
    return next(((key, named[key]) for key in _IDENTITIES if named.get(key)), None)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))
