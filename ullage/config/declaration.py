"""Declaration of settings: a section is a frozen dataclass whose fields carry their type and their description.

The settings themselves are in `settings`. Names in files are the fields' names in camelCase.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ullage.config.values import ValueType

T = TypeVar("T")

_KIND, _WHAT, _LIVE = "kind", "what", "live"


@dataclass(frozen=True, slots=True)
class SettingSpec:
    """Declaration of one setting."""

    attribute: str
    kind: ValueType[Any]
    what: str
    live: bool
    """A running program takes a new value over; else it has to be started again."""
    default: Any

    @property
    def name(self) -> str:
        """Name of the setting in files."""
        return camel(self.attribute)


def setting(default: T, kind: ValueType[T], what: str, *, live: bool = False) -> T:
    """A field of a section. Mappings must not be changed after that."""
    told: dict[str, Any] = {_KIND: kind, _WHAT: what, _LIVE: live}
    if isinstance(default, Mapping):
        made: Any = dataclasses.field(default_factory=lambda: default, metadata=told)
    else:
        made = dataclasses.field(default=default, metadata=told)
    field: T = made
    return field


def declared(section: Any) -> Iterator[SettingSpec]:
    """The settings of a section, in the order they are declared."""
    for field in dataclasses.fields(section):
        default = field.default if field.default is not dataclasses.MISSING else _made(field)
        told = field.metadata
        yield SettingSpec(field.name, told[_KIND], told[_WHAT], told[_LIVE], default)


def sections(settings: Any) -> Iterator[tuple[str, Any]]:
    """The sections of all settings: name in files and class."""
    for field in dataclasses.fields(settings):
        yield field.name, field.default_factory


def camel(attribute: str) -> str:
    """`max_gpus` as files spell it: `maxGpus`."""
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _made(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is dataclasses.MISSING:
        raise TypeError(f"setting {field.name} has no default")
    return field.default_factory()
