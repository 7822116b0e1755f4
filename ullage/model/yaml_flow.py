"""Values as YAML in one line, for sentences that people read. Files are written elsewhere."""

import re
from collections.abc import Iterable, Mapping

_PLAIN = re.compile(r"[A-Za-z0-9_/.]([A-Za-z0-9_/.+ -]*[A-Za-z0-9_/.+-])?")
_OTHER_MEANING = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def yaml_flow(value: object) -> str:
    """Value in YAML's flow style: `{H100: 20}`, `[a, b]`, `null`, `true`, `5m`, `''`."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{yaml_flow(key)}: {yaml_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, Iterable):
        return "[" + ", ".join(map(yaml_flow, value)) + "]"
    return str(value)


def _text(text: str) -> str:
    """Text, in quotes where YAML would read it as something else."""
    if _PLAIN.fullmatch(text) and text.lower() not in _OTHER_MEANING and not _is_number(text):
        return text
    return "'" + text.replace("'", "''") + "'"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
