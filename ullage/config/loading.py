"""Settings from their sources: a file, and what stands above it. Everything wrong is said at once, each with its place.

Sources are weaker to stronger: defaults, file, environment, flags. The stronger value counts, setting by setting.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class SettingPlace:
    """Place that gave a setting its value: line and path of a file, a variable or a flag."""

    source: str
    line: int = 0
    path: str = ""

    def problem(self, what: str) -> SettingProblem:
        """A problem of the value that stands here."""
        return SettingProblem(self.source, self.line, self.path, what)


@dataclass(frozen=True, slots=True)
class GivenSetting:
    """A value that a source gives to one setting."""

    section: str
    spec: SettingSpec
    value: Any
    place: SettingPlace
    adds: bool = False
    """Adds to a mapping that a weaker source gives, as flags and variables do. A file replaces the default."""


def load_settings(path: str | Path) -> Settings:
    """The settings of a file; what it does not say is as by default. Raises SettingsError."""
    return read_settings(read_text(path), str(path))


def read_settings(text: str, source: str, above: Sequence[GivenSetting] = ()) -> Settings:
    """The settings of a text, and of stronger sources above it. Raises SettingsError."""
    return read_sections(text, source, Settings, broken_laws, above)


def read_sections(text: str, source: str, whole: type[S], laws: Laws[S], above: Sequence[GivenSetting] = ()) -> S:
    """Any settings made of sections. Raises SettingsError."""
    problems: list[SettingProblem] = []
    given = [*_file_values(text, source, whole, problems), *above]
    return _applied(whole(), given, laws, problems)


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
    given = list(_section_values(known[section_name], section_name, {name: YamlEntry(value, 0)}, source, problems))
    return _applied(settings, given, broken_laws, problems)


def all_paths() -> tuple[str, ...]:
    """Every setting by its path."""
    return tuple(f"{name}.{one.name}" for name, section in sections(Settings) for one in declared(section))


def _file_values(text: str, source: str, whole: Any, problems: list[SettingProblem]) -> Iterator[GivenSetting]:
    known = dict(sections(whole))
    for name, entry in parsed(text, source, tuple(known)).items():
        if name not in known:
            what = f"there is no such section; allowed: {', '.join(known)}{meant(name, tuple(known))}"
            problems.append(SettingProblem(source, entry.line, name, what))
        elif entry.inside is None and entry.value is not None:
            problems.append(SettingProblem(source, entry.line, name, f"is {spoken(entry.value)} and not a section"))
        else:
            yield from _section_values(known[name], name, entry.inside or {}, source, problems)


def _section_values(
    section: Any, section_name: str, found: Mapping[str, YamlEntry], source: str, problems: list[SettingProblem]
) -> Iterator[GivenSetting]:
    known: dict[str, SettingSpec] = {one.name: one for one in declared(section)}
    for name, entry in found.items():
        place = SettingPlace(source, entry.line, f"{section_name}.{name}")
        if name not in known:
            what = f"there is no such setting; allowed: {', '.join(known)}{meant(name, tuple(known))}"
            problems.append(place.problem(what))
            continue
        try:
            yield GivenSetting(section_name, known[name], known[name].values.read(entry.value), place)
        except ValueError as error:
            problems.append(place.problem(str(error)))


def _applied(settings: S, given: Sequence[GivenSetting], laws: Laws[S], problems: list[SettingProblem]) -> S:
    """Settings with the given values in order, checked against the laws. Raises SettingsError."""
    places: dict[str, SettingPlace] = {}
    chosen: dict[str, dict[str, Any]] = {}
    for one in given:
        values = chosen.setdefault(one.section, {})
        attribute = one.spec.attribute
        below = values.get(attribute, getattr(getattr(settings, one.section), attribute))
        values[attribute] = one.spec.values.merge(below, one.value) if one.adds else one.value
        places[f"{one.section}.{one.spec.name}"] = one.place
    changed: dict[str, Any] = {name: replace(getattr(settings, name), **values) for name, values in chosen.items()}
    settings = replace(settings, **changed)  # type: ignore[type-var]  # a dataclass of sections
    if not problems:
        problems += [_place(places, path).problem(what) for path, what in laws(settings)]
    if problems:
        raise SettingsError(sorted(problems, key=lambda one: one.line))
    return settings


def _place(places: Mapping[str, SettingPlace], path: str) -> SettingPlace:
    """Place of the setting that breaks a law; its path says it where it has its default."""
    if path in places:
        return places[path]
    section = path.partition(".")[0]
    nearest = [place for name, place in places.items() if name.partition(".")[0] == section]
    return replace(nearest[-1], path=path) if nearest else SettingPlace("settings", 0, path)
