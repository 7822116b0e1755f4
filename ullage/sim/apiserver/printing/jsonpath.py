"""The JSONPath of printer columns: members, positions, wildcards and filters. A path is compiled once."""

import re
from collections.abc import Callable, Iterator
from typing import Any

Step = Callable[[Any], Iterator[Any]]

_TOKEN = re.compile(
    r"""
      \.(?P<deep>\.)?(?P<name>(?:\\.|[^.\[\]\\])+)     # .name, ..name, with dots escaped
    | \[\s*'(?P<quoted>(?:\\.|[^'\\])*)'\s*\]          # ['name']
    | \[\s*(?P<index>-?\d+)\s*\]
    | \[\s*(?P<all>\*)?\s*\]
    | \[\?\(\s*@(?P<left>[^=!<>]*?)\s*(?P<operator>==|!=)\s*(?P<right>[^)]+?)\s*\)\]
    """,
    re.VERBOSE,
)


class BadPath(ValueError):
    """It cannot be read as a path."""


def compiled(path: str) -> Callable[[Any], list[Any]]:
    """A function from a document to what lies at the path. Raises BadPath."""
    steps = list(_steps(path.strip().removeprefix("$")))

    def find(document: Any) -> list[Any]:
        found = [document]
        for step in steps:
            found = [inner for value in found for inner in step(value)]
        return found

    return find


def _steps(path: str) -> Iterator[Step]:
    if path and not path.startswith((".", "[")):
        path = "." + path
    at = 0
    while at < len(path):
        match = _TOKEN.match(path, at)
        if match is None:
            raise BadPath(f"unrecognized character in {path!r} at {at}")
        yield _step(match)
        at = match.end()


def _step(match: re.Match[str]) -> Step:
    name = match["quoted"] if match["quoted"] is not None else match["name"]
    if match["deep"]:
        return _below(_plain(name))
    if name is not None and name != "*":
        return _member(_plain(name))
    if match["index"] is not None:
        return _item(int(match["index"]))
    if match["operator"] is not None:
        return _filter(match["left"], match["operator"], match["right"])
    return _every


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _member(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _item(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from (value[key] for key in sorted(value))


def _below(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]
        for inner in _every(value):
            yield from step(inner)

    return step


def _filter(left: str, operator: str, right: str) -> Step:
    find, wanted = compiled(left), _literal(right)

    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else []:
            found = find(item)
            if found and (found[0] == wanted) is (operator == "=="):
                yield item

    return step


def _literal(text: str) -> Any:
    if text[:1] in ("'", '"'):
        return _plain(text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text
