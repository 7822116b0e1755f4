"""Reload as a pure comparison: what differs between two settings, and whether a running program can take it over."""

from dataclasses import dataclass
from typing import Any

from ullage.config.declaration import declared, sections
from ullage.config.settings import Settings


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting that differs. Values are as they would stand in a file."""

    path: str
    old: Any
    new: Any
    restart: bool
    """The program that looks at it has to be started again."""

    def __str__(self) -> str:
        return f"{self.path}: {self.old!r} -> {self.new!r}{' (needs a restart)' if self.restart else ''}"


def changes(old: Settings, new: Settings) -> tuple[SettingChange, ...]:
    """Settings that differ, in the order they are declared."""
    return tuple(
        SettingChange(f"{name}.{one.name}", one.values.write(before), one.values.write(after), restart=not one.live)
        for name, section in sections(Settings)
        for one in declared(section)
        if (before := getattr(getattr(old, name), one.attribute))
        != (after := getattr(getattr(new, name), one.attribute))
    )
