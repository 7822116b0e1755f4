"""Reload as a pure comparison: what differs between two settings, and what of it a running process takes over."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ullage.config.declaration import declared, sections
from ullage.config.laws import broken_laws
from ullage.config.settings import Settings
from ullage.model.yaml_flow import yaml_flow


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting that differs. Values are as they would stand in a file."""

    path: str
    old: Any
    new: Any
    restart: bool
    """The process has to be restarted before the new value counts."""

    def __str__(self) -> str:
        then = " (needs a restart)" if self.restart else ""
        return f"{self.path}: {yaml_flow(self.old)} -> {yaml_flow(self.new)}{then}"


@dataclass(frozen=True, slots=True)
class SettingsReload:
    """Settings in force after a file changed."""

    settings: Settings
    """Live settings as they are wanted; all others as they were."""
    applied: tuple[SettingChange, ...]
    waiting: tuple[SettingChange, ...]
    """Changes that wait for a restart."""


def changes(old: Settings, new: Settings) -> tuple[SettingChange, ...]:
    """Settings that differ, in the order they are declared."""
    found: list[SettingChange] = []
    for name, section in sections(Settings):
        for one in declared(section):
            before, after = getattr(getattr(old, name), one.attribute), getattr(getattr(new, name), one.attribute)
            if before != after:
                restart = not (one.live and one.values.takes_live(before, after))
                found.append(
                    SettingChange(f"{name}.{one.name}", one.values.write(before), one.values.write(after), restart)
                )
    return tuple(found)


def reload(running: Settings, wanted: Settings) -> SettingsReload:
    """Settings in force when a process that runs with `running` is given `wanted`. Raises ValueError with the path.

    A live setting may contradict one that waits for a restart; then nothing is taken over.
    """
    differing = changes(running, wanted)
    live = {change.path for change in differing if not change.restart}
    chosen: dict[str, Mapping[str, Any]] = {
        name: {
            one.attribute: getattr(getattr(wanted, name), one.attribute)
            for one in declared(section)
            if f"{name}.{one.name}" in live
        }
        for name, section in sections(Settings)
    }
    taken = {name: replace(getattr(running, name), **values) for name, values in chosen.items() if values}
    settings = replace(running, **taken)
    for path, what in broken_laws(settings):
        raise ValueError(f"{path}: {what}, which needs a restart")
    return SettingsReload(
        settings,
        tuple(change for change in differing if not change.restart),
        tuple(change for change in differing if change.restart),
    )
