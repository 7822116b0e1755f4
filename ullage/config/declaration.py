"""Declaration of settings: a section is a frozen dataclass whose fields are made by `setting`.

Name in files, flag, environment variable, help and documentation of a setting are derived from its declaration here.
The settings themselves are in `settings`. Pure: no files, no clock.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ullage.config.values import ValueType

T = TypeVar("T")

NO_FLAG = "-"
VARIABLE_PREFIX = "ULLAGE"
_SPEC = "setting"


@dataclass(frozen=True, slots=True)
class SettingSpec:
    """Declaration of one setting. The name of its section is the attribute of `Settings` that holds it."""

    attribute: str
    values: ValueType[Any]
    doc: str
    default: Any
    flag: str
    """Without dashes; empty if there is none."""
    old_flags: tuple[str, ...]
    """Former names of the flag: still taken, with a warning."""
    crd: str
    """Field of a custom resource whose default and bounds come from this setting; empty if there is none."""
    live: bool
    """A running process takes a new value over; otherwise it has to be restarted."""

    @property
    def name(self) -> str:
        """Name of the setting in files."""
        return camel(self.attribute)


@dataclass(frozen=True, slots=True)
class _Declared:
    values: ValueType[Any]
    doc: str
    flag: str
    old_flags: tuple[str, ...]
    crd: str
    live: bool


def setting(  # noqa: PLR0913 - one argument per property of a setting
    default: T,
    values: ValueType[T],
    doc: str,
    *,
    flag: str = "",
    old_flags: tuple[str, ...] = (),
    crd: str = "",
    live: bool = False,
) -> T:
    """Declare a field of a section. `flag`: empty is made from the field's name, `-` is none.

    Mappings must not be changed after that.
    """
    spec = {_SPEC: _Declared(values, doc, flag, old_flags, crd, live)}
    if isinstance(default, Mapping):
        made: Any = dataclasses.field(default_factory=lambda: default, metadata=spec)
    else:
        made = dataclasses.field(default=default, metadata=spec)
    field: T = made
    return field


def declared(section: Any) -> Iterator[SettingSpec]:
    """The settings of a section, in the order of declaration. A section's `flag_prefix` begins its derived flags."""
    prefix: str = getattr(section, "flag_prefix", "")
    for field in dataclasses.fields(section):
        said: _Declared = field.metadata[_SPEC]
        flag = said.flag or prefix + field.name.replace("_", "-")
        yield SettingSpec(
            field.name,
            said.values,
            said.doc,
            _default(field),
            "" if flag == NO_FLAG else flag,
            said.old_flags,
            said.crd,
            said.live,
        )


def sections(settings: Any) -> Iterator[tuple[str, Any]]:
    """The sections of all settings: name in files and class."""
    for field in dataclasses.fields(settings):
        yield field.name, field.default_factory


def camel(attribute: str) -> str:
    """`max_gpus` as files spell it: `maxGpus`."""
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


def variable(section: str, one: SettingSpec) -> str:
    """Environment variable of a setting: `ULLAGE_DRAINING_SCAN_INTERVAL`."""
    return f"{VARIABLE_PREFIX}_{section}_{one.attribute}".upper()


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is dataclasses.MISSING:
        raise TypeError(f"setting {field.name} has no default")
    return field.default_factory()
