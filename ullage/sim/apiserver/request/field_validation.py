"""Fields a kind does not have, and fields said twice: an error, a warning or nothing, as the writer wants it."""

import json
from typing import Any

from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.field_errors import wrong
from ullage.sim.apiserver.request.status_errors import StatusSubject, bad_request, invalid, unexpected
from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode
from ullage.sim.apiserver.types.catalog import ObjectType, catalog, find_type, item_type

STRICT, WARN = "Strict", "Warn"
_META = "meta.v1.ObjectMeta"


class _Pairs(list[tuple[str, Any]]):
    """An object as it was written: members in order, also those written twice."""


def check_sent(call: ApiCall, obj: JsonObject) -> None:
    """Field validation of a created or replaced object. Raises StatusError."""
    found = _complaints(call, obj, obj)
    if found:
        kind = call.kind
        handled = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{handled}: strict decoding error: {', '.join(found)}")


def check_patched(call: ApiCall, result: JsonObject, patch: Any, *, strategic: bool) -> None:
    """Field validation of a patched object. Raises StatusError."""
    found = _complaints(call, patch, result)
    if found:
        shown = _go_text(patch) if strategic else encode(result).decode()
        problem = wrong("patch", shown, f"strict decoding error: {', '.join(found)}")
        raise invalid(StatusSubject("", "", ""), [problem])


def check_applied(call: ApiCall, config: JsonObject) -> None:
    """An apply names fields to own them, so it cannot name any that do not exist. Raises StatusError."""
    found = _unknown(call, config)
    if not found:
        return
    metadata = config.get("metadata") or {}
    place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    version = call.kind.api_version if call.kind.group else f"/{call.kind.version}"
    lines = [f".{path}: field not declared in schema" for path in found]
    said = lines[0] if len(lines) == 1 else "errors:\n  " + "\n  ".join(lines)
    raise unexpected(f"failed to create typed patch object ({place}; {version}, Kind={call.kind.kind}): {said}")


def _complaints(call: ApiCall, sent: Any, result: JsonObject) -> list[str]:
    """Errors for a strict writer. With `Warn` they become warnings of the call, and nothing is returned."""
    wish = call.query.get("fieldValidation", "")
    if wish not in (STRICT, WARN):
        return []
    found = _in_order(call, sent, result)
    if wish == WARN:
        call.warnings.extend(found)
        return []
    return found


def _in_order(call: ApiCall, sent: Any, result: JsonObject) -> list[str]:
    """Built-in kinds complain in the order of the document, custom ones of duplicates first."""
    written = _as_written(call)
    known = _type_of(call)
    if known is not None and sent is result and isinstance(written, _Pairs):
        return [f'{word} field "{path}"' for word, path in _walk(written, known.name, "", known)]
    duplicates = [f'duplicate field "{path}"' for path in _duplicates(written, "")]
    return duplicates + [f'unknown field "{path}"' for path in _unknown(call, result)]


def _as_written(call: ApiCall) -> Any:
    if "json" not in call.request.content_type:
        return None
    try:
        return json.loads(call.request.body or b"null", object_pairs_hook=_Pairs)
    except ValueError:
        return None


def _type_of(call: ApiCall) -> ObjectType | None:
    kind = call.kind
    return None if kind.custom else find_type(kind.group, kind.version, kind.kind)


def _unknown(call: ApiCall, obj: JsonObject) -> list[str]:
    known = _type_of(call)
    if known is not None:
        return [path for word, path in _walk(obj, known.name, "", known) if word == "unknown"]
    metadata = obj.get("metadata")
    found = [path for _, path in _walk(metadata, _META, "metadata", None)] if isinstance(metadata, dict) else []
    return found + call.kind.rules.unknown_fields(obj)


def _walk(value: Any, kind: str, at: str, root: ObjectType | None) -> list[tuple[str, str]]:
    """(`unknown` or `duplicate`, path) for everything wrong below, in the order it is written."""
    found: list[tuple[str, str]] = []
    if isinstance(value, list) and not isinstance(value, _Pairs):
        for index, item in enumerate(value):
            found += _walk(item, item_type(kind), f"{at}[{index}]", None)
        return found
    members = value if isinstance(value, _Pairs) else list(value.items()) if isinstance(value, dict) else []
    fields = catalog()[kind].fields if kind in catalog() else None
    seen: set[str] = set()
    for name, member in members:
        path = f"{at}.{name}" if at else name
        if name in seen:
            found.append(("duplicate", path))
            continue
        seen.add(name)
        if kind.startswith("map:"):
            found += _walk(member, item_type(kind), path, None)
        elif fields is not None and name in fields:
            found += _walk(member, fields[name].type, path, None)
        elif fields is not None and not (root is not None and root.typed and name in ("apiVersion", "kind")):
            found.append(("unknown", path))
    return found


def _duplicates(value: Any, at: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, member in value:
            path = f"{at}.{name}" if at else name
            found += [path] if name in seen else _duplicates(member, path)
            seen.add(name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _duplicates(item, f"{at}[{index}]")
    return found


def _go_text(value: Any) -> str:
    """As Go prints a map it has read from JSON."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(_go_text(item) for item in value) + "]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "<nil>"}[value]
    return str(value)
