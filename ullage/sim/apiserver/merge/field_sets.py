"""Fields as sets of paths, and documents merged and pruned by them: the arithmetic of server-side apply.

A path is a tuple of steps, spelled as in `managedFields`: `f:spec`, `k:{"name":"c"}`, `v:"a/b"`. Pure functions.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ullage.sim.apiserver.merge.merge_schema import ATOMIC_UNKNOWN, MergeKind, MergeSchema
from ullage.sim.apiserver.storage.json_bytes import JsonObject, copied, decode, encode

Path = tuple[str, ...]
Leaves = dict[Path, Any]
_MISSING = object()

UNOWNED = frozenset(
    [("f:apiVersion",), ("f:kind",)]
    + [
        ("f:metadata", f"f:{name}")
        for name in (
            "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields",
            "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds",
        )
    ]
)  # fmt: skip
"""Fields no manager can own."""


def leaves(document: JsonObject, schema: MergeSchema) -> Leaves:
    """Every path that can have an owner, with its value; items of keyed lists are paths of their own, without one."""
    found: Leaves = {}
    _collect(document, schema, (), found)
    for path in UNOWNED:
        found.pop(path, None)
    found.pop((), None)
    return found


def _collect(value: Any, schema: MergeSchema, path: Path, found: Leaves) -> None:
    if _by_member(value, schema):
        if not value:
            found[path] = {}
        for name, member in value.items():
            _collect(member, schema.member(name), (*path, f"f:{name}"), found)
    elif schema.shape is MergeKind.KEYED and isinstance(value, list) and value:
        for step, item in keyed_items(value, schema):
            found[(*path, step)] = None
            _collect_item(item, schema, (*path, step), found)
    elif schema.shape is MergeKind.SET and isinstance(value, list) and value:
        for item in value:
            found[(*path, set_step(item))] = item
    else:
        found[path] = value


def _collect_item(item: Any, schema: MergeSchema, path: Path, found: Leaves) -> None:
    inner = schema.rest or ATOMIC_UNKNOWN
    if isinstance(item, dict) and inner.shape in (MergeKind.MEMBERS, MergeKind.GUESS):
        for name, member in item.items():
            _collect(member, inner.member(name), (*path, f"f:{name}"), found)
    else:
        found[path] = item


def _by_member(value: Any, schema: MergeSchema) -> bool:
    return isinstance(value, dict) and schema.shape in (MergeKind.MEMBERS, MergeKind.GUESS)


def keyed_items(items: list[Any], schema: MergeSchema) -> Iterator[tuple[str, Any]]:
    """Items of a keyed list with the step that leads to each."""
    for item in items:
        if isinstance(item, dict):
            keys = {key: item.get(key, schema.key_defaults.get(key)) for key in sorted(schema.keys)}
            yield "k:" + encode(keys).decode(), item


def set_step(item: Any) -> str:
    return "v:" + encode(item).decode()


def merged(live: Any, applied: Any, schema: MergeSchema) -> Any:
    """The live value with the applied one on top. Both are left alone."""
    if _by_member(applied, schema):
        result = dict(live) if isinstance(live, dict) else {}
        for name, member in applied.items():
            result[name] = merged(result.get(name), member, schema.member(name))
        return result
    if isinstance(applied, list) and isinstance(live, list):
        if schema.shape is MergeKind.KEYED:
            return _merged_list(live, applied, schema)
        if schema.shape is MergeKind.SET:
            return [*live, *(item for item in applied if item not in live)]
    return copied({"v": applied})["v"]


def _merged_list(live: list[Any], applied: list[Any], schema: MergeSchema) -> list[Any]:
    """Items keep their places; new ones follow."""
    wanted = dict(keyed_items(applied, schema))
    result: list[Any] = []
    for step, item in keyed_items(live, schema):
        result.append(merged(item, wanted.pop(step), schema.rest or ATOMIC_UNKNOWN) if step in wanted else item)
    return result + [copied(item) for item in wanted.values()]


def pruned(document: JsonObject, schema: MergeSchema, gone: Iterable[Path], kept: frozenset[Path]) -> JsonObject:
    """The document without the paths that are gone; what others own below them stays."""
    result = copied(document)
    for path in sorted(gone, key=lambda steps: (len(steps), steps)):
        if not any(other[: len(path)] == path for other in kept):
            _remove(result, schema, path, kept, ())
    return result


def _remove(value: Any, schema: MergeSchema, path: Path, kept: frozenset[Path], done: Path) -> None:
    """Take one path away, and the containers it leaves empty."""
    step, rest = path[0], path[1:]
    if step.startswith("f:"):
        name = step[2:]
        if not isinstance(value, dict) or name not in value:
            return
        if rest:
            _remove(value[name], schema.member(name), rest, kept, (*done, step))
            emptied = value[name] in ({}, [])
        else:
            emptied = True
        if emptied and (*done, step) not in kept:
            del value[name]
    elif isinstance(value, list):
        _remove_item(value, schema, path, kept, done)


def _remove_item(value: list[Any], schema: MergeSchema, path: Path, kept: frozenset[Path], done: Path) -> None:
    step, rest = path[0], path[1:]
    if step.startswith("v:"):
        value[:] = [item for item in value if set_step(item) != step]
        return
    for found, item in list(keyed_items(value, schema)):
        if found == step:
            if rest:
                _remove(item, schema.rest or ATOMIC_UNKNOWN, rest, kept, (*done, step))
            else:
                value.remove(item)


def rendered(paths: Iterable[Path], items: frozenset[Path]) -> JsonObject:
    """As `managedFields` spells them: a tree, with a dot where an item of a keyed list is owned itself."""
    tree: JsonObject = {}
    for path in sorted(paths):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        if path in items:
            node["."] = {}
    return tree


def paths_in(tree: JsonObject, at: Path = ()) -> frozenset[Path]:
    """And back: the paths a tree of `managedFields` spells."""
    found: set[Path] = set()
    for step, inner in tree.items():
        if step == ".":
            if at and at[-1].startswith("k:"):
                found.add(at)
        elif inner:
            found |= paths_in(inner, (*at, step))
        else:
            found.add((*at, step))
    return frozenset(found)


def dotted(path: Path) -> str:
    """As conflicts name a field: `.spec.template.spec.containers[name="c"].image`."""
    text = ""
    for step in path:
        kind, _, rest = step.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "v":
            text += f"[={rest}]"
        else:
            text += _dotted_key(rest)
    return text


def _dotted_key(keys: str) -> str:
    parts = [f"{name}={encode(value).decode()}" for name, value in decode(keys.encode()).items()]
    return f"[{','.join(parts)}]"
