"""Settings from YAML. All that is wrong is said at once, each with file, line, field and what is allowed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from ullage.config.kinds import meant, spoken
from ullage.config.laws import broken_laws
from ullage.config.schema import Declared, declared, sections
from ullage.config.settings import Settings
from ullage.errors import UserError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. Prints as `file:line: field: what`."""

    source: str
    line: int
    path: str
    what: str

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}" if self.line else self.source
        return f"{where}: {self.path}: {self.what}" if self.path else f"{where}: {self.what}"


class SettingsError(UserError):
    """A settings file that cannot be used. Prints all its problems, one a line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A value and the line it stands on. Mappings keep their entries apart."""

    value: Any
    line: int
    inside: Mapping[str, "_Entry"] | None = None


def load_settings(path: str | Path) -> Settings:
    """The settings of a file; what it does not say is as by default. Raises SettingsError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError([Problem(str(path), 0, "", (error.strerror or "cannot be read").lower())]) from error
    except UnicodeDecodeError as error:
        raise SettingsError([Problem(str(path), 0, "", "is not UTF-8 text; give YAML")]) from error
    return read_settings(text, str(path))


def read_settings(text: str, source: str) -> Settings:
    """The same from a text. Raises SettingsError."""
    found = _parsed(text, source)
    problems: list[Problem] = []
    known = dict(sections(Settings))
    filled: dict[str, Any] = {}
    for name, entry in found.items():
        if name not in known:
            what = f"there is no such section; allowed: {', '.join(known)}{meant(name, tuple(known))}"
            problems.append(Problem(source, entry.line, name, what))
        elif entry.inside is None and entry.value is not None:
            problems.append(Problem(source, entry.line, name, f"is {spoken(entry.value)} and not a section"))
        else:
            filled[name] = _section(known[name], name, entry, source, problems)
    settings = Settings(**filled)
    if not problems:
        problems += [Problem(source, _line(found, path), path, what) for path, what in broken_laws(settings)]
    if problems:
        raise SettingsError(sorted(problems, key=lambda one: one.line))
    return settings


def override(settings: Settings, path: str, text: str, source: str) -> Settings:
    """One setting changed, as `--set` and `--sweep` say it: `scheduling.policy` and its value in YAML."""
    section_name, _, name = path.partition(".")
    known = dict(sections(Settings))
    if section_name not in known or not name:
        raise SettingsError([Problem(source, 0, path, f"there is no such setting{meant(path, all_paths())}")])
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError([Problem(source, 0, path, f"{text!r} is not YAML")]) from error
    problems: list[Problem] = []
    entry = _Entry(value, 0)
    section = getattr(settings, section_name)
    changed = dict(_values(known[section_name], section_name, {name: entry}, source, problems))
    if problems:
        raise SettingsError(problems)
    settings = replace(settings, **{section_name: replace(section, **changed)})
    if broken := [Problem(source, 0, where, what) for where, what in broken_laws(settings)]:
        raise SettingsError(broken)
    return settings


def all_paths() -> tuple[str, ...]:
    """Every setting by its path."""
    return tuple(f"{name}.{one.name}" for name, section in sections(Settings) for one in declared(section))


def _section(section: Any, name: str, entry: _Entry, source: str, problems: list[Problem]) -> Any:
    return section(**dict(_values(section, name, entry.inside or {}, source, problems)))


def _values(
    section: Any, section_name: str, found: Mapping[str, _Entry], source: str, problems: list[Problem]
) -> Iterator[tuple[str, Any]]:
    known: dict[str, Declared] = {one.name: one for one in declared(section)}
    for name, entry in found.items():
        path = f"{section_name}.{name}"
        if name not in known:
            what = f"there is no such setting; allowed: {', '.join(known)}{meant(name, tuple(known))}"
            problems.append(Problem(source, entry.line, path, what))
            continue
        try:
            yield known[name].attribute, known[name].kind.read(entry.value)
        except ValueError as error:
            problems.append(Problem(source, entry.line, path, str(error)))


def _line(found: Mapping[str, _Entry], path: str) -> int:
    section, _, name = path.partition(".")
    entry = found.get(section)
    inside = entry.inside if entry is not None else None
    return inside[name].line if inside and name in inside else entry.line if entry is not None else 0


def _parsed(text: str, source: str) -> dict[str, _Entry]:
    try:
        documents = list(yaml.compose_all(text, yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 0
        raise SettingsError([Problem(source, line, "", f"is not YAML: {error.problem}")]) from error
    except yaml.YAMLError as error:
        raise SettingsError([Problem(source, 0, "", f"is not YAML: {error}")]) from error
    if len(documents) > 1:
        raise SettingsError([Problem(source, documents[1].start_mark.line + 1, "", "has a second document; give one")])
    if not documents or _is_null(documents[0]):
        return {}
    try:
        top = _entry(documents[0], source, "")
    except RecursionError as error:
        raise SettingsError([Problem(source, 0, "", "is nested too deep, or within itself")]) from error
    if top.inside is None:
        what = f"is {spoken(top.value)}; give sections: {', '.join(name for name, _ in sections(Settings))}"
        raise SettingsError([Problem(source, top.line, "", what)])
    return dict(top.inside)


def _entry(node: yaml.Node, source: str, path: str) -> _Entry:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        inside: dict[str, _Entry] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in inside:
                problem = Problem(source, key.start_mark.line + 1, _below(path, name), "is given twice; keep one")
                raise SettingsError([problem])
            inside[name] = replace(_entry(value, source, _below(path, name)), line=key.start_mark.line + 1)
        return _Entry({name: entry.value for name, entry in inside.items()}, line, inside)
    if isinstance(node, yaml.SequenceNode):
        return _Entry([_entry(one, source, path).value for one in node.value], line)
    return _Entry(_scalar(node, source, path), line)


def _scalar(node: yaml.Node, source: str, path: str) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError) as error:
        problem = Problem(source, node.start_mark.line + 1, path, f"cannot be read: {node.value!r}")
        raise SettingsError([problem]) from error
    finally:
        loader.dispose()


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
