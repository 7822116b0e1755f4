"""Settings from YAML. All that is wrong is said at once, each with file, line, field and what is allowed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ullage.config.declaration import SettingSpec, declared, sections
from ullage.config.laws import broken_laws
from ullage.config.settings import Settings
from ullage.config.values import meant, spoken
from ullage.config.yaml_document import SettingProblem, SettingsError, YamlEntry, parsed, read_text

S = TypeVar("S")
Laws = Callable[[S], Iterable[tuple[str, str]]]


def load_settings(path: str | Path) -> Settings:
    """The settings of a file; what it does not say is as by default. Raises SettingsError."""
    return read_settings(read_text(path), str(path))


def read_settings(text: str, source: str) -> Settings:
    """Read settings from a text. Raises SettingsError."""
    return read_sections(text, source, Settings, broken_laws)


def read_sections(text: str, source: str, whole: type[S], laws: Laws[S]) -> S:
    """Any settings made of sections. Raises SettingsError."""
    known = dict(sections(whole))
    found = parsed(text, source, tuple(known))
    problems: list[SettingProblem] = []
    filled: dict[str, Any] = {}
    for name, entry in found.items():
        if name not in known:
            what = f"there is no such section; allowed: {', '.join(known)}{meant(name, tuple(known))}"
            problems.append(SettingProblem(source, entry.line, name, what))
        elif entry.inside is None and entry.value is not None:
            problems.append(SettingProblem(source, entry.line, name, f"is {spoken(entry.value)} and not a section"))
        else:
            filled[name] = known[name](**dict(_values(known[name], name, entry.inside or {}, source, problems)))
    settings = whole(**filled)
    if not problems:
        problems += [SettingProblem(source, _line(found, path), path, what) for path, what in laws(settings)]
    if problems:
        raise SettingsError(sorted(problems, key=lambda one: one.line))
    return settings


def override(settings: Settings, path: str, text: str, source: str) -> Settings:
    """Change one setting: `scheduling.policy` and its value in YAML. Raises SettingsError with `source` in it."""
    section_name, _, name = path.partition(".")
    known = dict(sections(Settings))
    if section_name not in known or not name:
        raise SettingsError([SettingProblem(source, 0, path, f"there is no such setting{meant(path, all_paths())}")])
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError([SettingProblem(source, 0, path, f"{text!r} is not YAML")]) from error
    problems: list[SettingProblem] = []
    section = getattr(settings, section_name)
    changed = dict(_values(known[section_name], section_name, {name: YamlEntry(value, 0)}, source, problems))
    if problems:
        raise SettingsError(problems)
    settings = replace(settings, **{section_name: replace(section, **changed)})
    if broken := [SettingProblem(source, 0, where, what) for where, what in broken_laws(settings)]:
        raise SettingsError(broken)
    return settings


def all_paths() -> tuple[str, ...]:
    """Every setting by its path."""
    return tuple(f"{name}.{one.name}" for name, section in sections(Settings) for one in declared(section))


def _values(
    section: Any, section_name: str, found: Mapping[str, YamlEntry], source: str, problems: list[SettingProblem]
) -> Iterator[tuple[str, Any]]:
    known: dict[str, SettingSpec] = {one.name: one for one in declared(section)}
    for name, entry in found.items():
        path = f"{section_name}.{name}"
        if name not in known:
            what = f"there is no such setting; allowed: {', '.join(known)}{meant(name, tuple(known))}"
            problems.append(SettingProblem(source, entry.line, path, what))
            continue
        try:
            yield known[name].attribute, known[name].kind.read(entry.value)
        except ValueError as error:
            problems.append(SettingProblem(source, entry.line, path, str(error)))


def _line(found: Mapping[str, YamlEntry], path: str) -> int:
    section, _, name = path.partition(".")
    entry = found.get(section)
    if entry is None:
        return 0
    return entry.inside[name].line if entry.inside and name in entry.inside else entry.line
