"""A YAML document with the line of every value, and what is wrong with it as problems. Knows no settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from ullage.config.values import spoken
from ullage.errors import UserError


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """One problem in a settings file. Prints as `file:line: field: what`."""

    source: str
    line: int
    path: str
    what: str

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}" if self.line else self.source
        return f"{where}: {self.path}: {self.what}" if self.path else f"{where}: {self.what}"


class SettingsError(UserError):
    """A file that cannot be used. Prints all its problems, one a line."""

    def __init__(self, problems: Sequence[SettingProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class YamlEntry:
    """A value and the line it stands on. Mappings have their entries, too."""

    value: Any
    line: int
    inside: Mapping[str, "YamlEntry"] | None = None


def read_text(path: str | Path) -> str:
    """A file. Raises SettingsError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError([SettingProblem(str(path), 0, "", (error.strerror or "cannot be read").lower())]) from error
    except UnicodeDecodeError as error:
        raise SettingsError([SettingProblem(str(path), 0, "", "is not UTF-8 text; give YAML")]) from error


def parsed(text: str, source: str, sections: Sequence[str]) -> dict[str, YamlEntry]:
    """Return the mapping of a text with one YAML document; empty for an empty text. Raises SettingsError."""
    try:
        documents = list(yaml.compose_all(text, yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 0
        raise SettingsError([SettingProblem(source, line, "", f"is not YAML: {error.problem}")]) from error
    except yaml.YAMLError as error:
        raise SettingsError([SettingProblem(source, 0, "", f"is not YAML: {error}")]) from error
    if len(documents) > 1:
        raise SettingsError(
            [SettingProblem(source, documents[1].start_mark.line + 1, "", "has a second document; give one")]
        )
    if not documents or _is_null(documents[0]):
        return {}
    try:
        top = _entry(documents[0], source, "")
    except RecursionError as error:
        raise SettingsError([SettingProblem(source, 0, "", "is nested too deep, or within itself")]) from error
    if top.inside is None:
        raise SettingsError(
            [SettingProblem(source, top.line, "", f"is {spoken(top.value)}; give {', '.join(sections)}")]
        )
    return dict(top.inside)


def _entry(node: yaml.Node, source: str, path: str) -> YamlEntry:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        inside: dict[str, YamlEntry] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in inside:
                problem = SettingProblem(
                    source, key.start_mark.line + 1, _below(path, name), "is given twice; keep one"
                )
                raise SettingsError([problem])
            inside[name] = replace(_entry(value, source, _below(path, name)), line=key.start_mark.line + 1)
        return YamlEntry({name: entry.value for name, entry in inside.items()}, line, inside)
    if isinstance(node, yaml.SequenceNode):
        return YamlEntry([_entry(one, source, path).value for one in node.value], line)
    return YamlEntry(_scalar(node, source, path), line)


def _scalar(node: yaml.Node, source: str, path: str) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError) as error:
        problem = SettingProblem(source, node.start_mark.line + 1, path, f"cannot be read: {node.value!r}")
        raise SettingsError([problem]) from error
    finally:
        loader.dispose()


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
