"""Catalog of types, read once, on first use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class TypeField:
    """One field of a type."""

    name: str
    numbers: tuple[int, ...]
    """Its number, after those of the messages it is embedded in; nothing where it has none."""
    type: str
    """A scalar, the name of another type, or one of these after `[]` or `map:`."""
    required: bool = False
    kept: bool = False
    """Written also when it is empty."""
    pointer: bool = False
    """Unset differs from empty."""
    merge: str = ""
    """`atomic`, `set`, or `keys`."""
    keys: tuple[str, ...] = ()
    patch: str = ""
    """Its strategy in strategic merge patches."""
    patch_key: str = ""
    enum: tuple[str, ...] = ()
    default: str = ""


@dataclass(frozen=True, slots=True)
class ObjectType:
    """A type with fields. `typed` ones also have apiVersion and kind."""

    name: str
    fields: Mapping[str, TypeField] = field(default_factory=dict)
    atomic: bool = False
    typed: bool = False


@cache
def catalog() -> Mapping[str, ObjectType]:
    text = files(__package__).joinpath("builtin.txt").read_text(encoding="utf-8")
    return {one.name: one for one in _types(text)}


def type_name(group: str, version: str, kind: str) -> str:
    return f"{group.partition('.')[0] or 'core'}.{version}.{kind}"


def find_type(group: str, version: str, kind: str) -> ObjectType | None:
    """The type of a built-in kind."""
    if group and "." not in group and group not in ("apps", "batch", "policy", "autoscaling"):
        return None
    return catalog().get(type_name(group, version, kind))


def item_type(name: str) -> str:
    """Type of the items of a list or map."""
    return name.removeprefix("[]") if name.startswith("[]") else name.removeprefix("map:")


def base_type(name: str) -> str:
    """Type of the innermost items, below all lists and maps."""
    while name.startswith(("[]", "map:")):
        name = item_type(name)
    return name


def _types(text: str) -> Iterator[ObjectType]:
    head: list[str] = []
    found: dict[str, TypeField] = {}
    for line in [*text.splitlines(), "end"]:
        if line.startswith(" "):
            one = _field(line.split())
            found[one.name] = one
            continue
        if head:
            yield ObjectType(head[0], found, atomic="atomic" in head, typed="typed" in head)
        head, found = line.split(), {}


def _field(words: list[str]) -> TypeField:
    name, number, kind, *rest = words
    said = dict(word.partition("=")[::2] for word in rest)
    merge = next((word for word in ("atomic", "set", "keys") if word in said), "")
    return TypeField(
        name=name,
        numbers=tuple(int(part) for part in number.split(".")) if number != "0" else (),
        type=kind,
        required="required" in said,
        kept="kept" in said,
        pointer="pointer" in said,
        merge=merge,
        keys=_split(said.get("keys", ""), ","),
        patch=said.get("patch", ""),
        patch_key=said.get("by", ""),
        enum=_split(said.get("enum", ""), "|"),
        default=said.get("default", ""),
    )


def _split(text: str, mark: str) -> tuple[str, ...]:
    return tuple(text.split(mark)) if text else ()
