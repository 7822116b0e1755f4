"""The command line a user typed, as reports tell it: without folders, and without options that change no result."""

import shlex
from pathlib import Path

import click
from click.core import ParameterSource

_NO_RESULT = {"report", "output", "quiet", "processes", "ray", "violation_file"}


def typed_command() -> str:
    """The present command: options in the order of `--help`, files by their names alone."""
    context = click.get_current_context()
    parts = ["ullage", str(context.info_name)]
    arguments: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE or name in _NO_RESULT:
            continue
        values = _values(context.params[name])
        if isinstance(parameter, click.Argument):
            arguments += values
        elif isinstance(parameter, click.Option) and parameter.is_flag:
            parts.append(parameter.opts[-1] if context.params[name] else parameter.secondary_opts[-1])
        else:
            flag = max(parameter.opts, key=len)
            parts += [part for value in values for part in (flag, value)]
    return shlex.join([*parts, *arguments])


def _values(value: object) -> list[str]:
    many = value if isinstance(value, list | tuple) else [value]
    return [_without_folder(str(one)) for one in many if one is not None]


def _without_folder(text: str) -> str:
    return Path(text).name if Path(text).exists() else text
