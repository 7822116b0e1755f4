"""RFC 7386 merge patches and RFC 6902 JSON patches, as pure functions of documents."""

from collections.abc import Sequence
from typing import Any

from ullage.sim.apiserver.storage.json_bytes import copied


class PatchFailed(Exception):
    """The patch does not apply to this document."""


def merge(document: Any, patch: Any) -> Any:
    """RFC 7386. The document may be changed and reused; the patch is not."""
    if not isinstance(patch, dict):
        return patch
    result = document if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def apply_operations(document: Any, operations: Sequence[Any]) -> Any:
    """RFC 6902. Raises PatchFailed; the document is then in an undefined state, so hand in a copy."""
    for operation in operations:
        document = _apply_one(document, operation)
    return document


def _apply_one(document: Any, operation: Any) -> Any:
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        raise PatchFailed("an operation needs an op and a path")
    path, op = _pointer(operation["path"]), operation.get("op")
    if op in ("add", "replace", "test") and "value" not in operation:
        raise PatchFailed(f"{op} needs a value")
    match op:
        case "add":
            return _add(document, path, operation["value"])
        case "remove":
            return _remove(document, path)
        case "replace":
            return _replace(document, path, operation["value"])
        case "test":
            return _test(document, path, operation["value"])
        case "move" | "copy":
            return _transfer(document, path, operation, keep=op == "copy")
        case _:
            raise PatchFailed(f"unknown operation {op!r}")


def _replace(document: Any, path: list[str], value: Any) -> Any:
    _get(document, path)
    return value if not path else _add(_remove(document, path), path, value)


def _test(document: Any, path: list[str], value: Any) -> Any:
    if not _equal(_get(document, path), value):
        raise PatchFailed("test failed")
    return document


def _transfer(document: Any, path: list[str], operation: dict[str, Any], *, keep: bool) -> Any:
    if not isinstance(operation.get("from"), str):
        raise PatchFailed("move and copy need a from")
    source = _pointer(operation["from"])
    value = copied({"v": _get(document, source)})["v"]
    if keep:
        return _add(document, path, value)
    if path[: len(source)] == source and path != source:
        raise PatchFailed("cannot move a value into itself")
    return _add(_remove(document, source), path, value)


def _pointer(text: str) -> list[str]:
    if text == "":
        return []
    if not text.startswith("/"):
        raise PatchFailed(f"{text!r} is not a JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _index(part: str, length: int) -> int:
    """A position in a list of that length. Negative ones count from the end, as the server's library has it."""
    digits = part[1:] if part.startswith("-") else part
    if not digits.isdigit():
        raise PatchFailed(f"{part!r} is not an index")
    number = int(part)
    if number < 0:
        number += length
    if not 0 <= number < length:
        raise PatchFailed(f"index {part} is out of bounds")
    return number


def _get(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        if isinstance(document, dict):
            if part not in document:
                raise PatchFailed(f"there is no {part!r}")
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(part, len(document))]
        else:
            raise PatchFailed(f"nothing lies under {part!r}")
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _get(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(last, len(parent) + 1), value)
    else:
        raise PatchFailed("only objects and lists have members")
    return document


def _remove(document: Any, path: list[str]) -> Any:
    if not path:
        raise PatchFailed("the whole document cannot be removed")
    parent, last = _get(document, path[:-1]), path[-1]
    _get(parent, [last])
    if isinstance(parent, dict):
        del parent[last]
    else:
        del parent[_index(last, len(parent))]
    return document


def _equal(one: Any, other: Any) -> bool:
    """JSON equality: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
