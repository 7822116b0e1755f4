"""Flags of settings, made from their declarations, and the settings of a process from all sources.

A verb names the sections whose flags it has: `@setting_options("scheduling")`. Values, defaults and help are in
`ullage.config.settings`.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ullage.config.compound_values import Nullable
from ullage.config.declaration import SettingSpec, declared, sections
from ullage.config.environment import environment_settings
from ullage.config.loading import GivenSetting, SettingPlace, read_settings
from ullage.config.settings import Settings
from ullage.config.values import Boolean, Duration
from ullage.config.yaml_document import SettingProblem, SettingsError, read_text
from ullage.errors import UserError
from ullage.model.scoring import LIVE_POLICIES
from ullage.model.units import Seconds

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from ullage.control.settings_reload import SettingsReloader

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

FILE = "settings_file"
_OLD = "__old"


def setting_options(*chosen: str) -> Decorator:
    """Add `--settings`, and a flag for every setting chosen: a whole section, or `section.attribute`."""
    options = [
        click.option(
            "--settings",
            FILE,
            metavar="FILE",
            help="Settings file; see `ullage config show`. The environment and flags count before it.",
        ),
        *(option for section, one in _chosen(chosen) for option in _options(section, one)),
    ]

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def is_given(section: str, attribute: str) -> bool:
    """True if the user gave the flag of this setting."""
    source = click.get_current_context().get_parameter_source(_parameter(section, attribute))
    return source not in (None, ParameterSource.DEFAULT)


def read_options(options: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of a process: defaults < file < environment < flags. Raises UserError."""
    file: str | None = options[FILE]
    above = stronger_than_file(options, environment)
    return read_settings("" if file is None else read_text(file), file or "settings", above)


@asynccontextmanager
async def following_settings(
    options: Mapping[str, Any], settings: Settings, election: str, registry: "CollectorRegistry"
) -> AsyncIterator["SettingsReloader"]:
    """Settings in force during the block: their file is followed, where there is one.

    Events on them are about the Lease `election`.
    """
    from ullage.control.settings_reload import SettingsReloader
    from ullage.model.fact_event import ObjectKey
    from ullage.observe.events import ObjectReference
    from ullage.observe.settings_metrics import SettingsMetrics

    file: str | None = options[FILE]
    above = stronger_than_file(options)
    namespace = settings.scheduling.lease_namespace
    about = ObjectReference("Lease", ObjectKey(namespace, election), api_version="coordination.k8s.io/v1")
    reloader = SettingsReloader(
        file or "",
        settings,
        lambda text: refuse_random(read_settings(text, file or "", above), file),
        about,
        SettingsMetrics(registry),
    )
    following = asyncio.create_task(reloader.run(), name="settings file") if file is not None else None
    try:
        yield reloader
    finally:
        if following is not None:
            following.cancel()
            await asyncio.wait((following,))


def refuse_random(settings: Settings, source: str | None) -> Settings:
    """Return the settings unless they place by chance: that is for simulations. Raises UserError."""
    for scheduler, policy in settings.scheduling.policies().items():
        if policy not in LIVE_POLICIES:
            raise UserError(
                f"{source or 'settings'}: scheduling: {policy} (of {scheduler}) is for simulations; allowed: "
                f"{', '.join(LIVE_POLICIES)}"
            )
    return settings


def read_length(text: str, option: str) -> Seconds:
    """A length of time above zero, of an option that is no setting. Raises UserError."""
    try:
        seconds = Duration().parse(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from error
    if not seconds:
        raise UserError(f"{option}: must be longer than 0s")
    return seconds


def stronger_than_file(
    options: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> tuple[GivenSetting, ...]:
    """Settings given by the environment and by flags. Raises UserError."""
    variables = environment_settings(os.environ if environment is None else environment)
    return (*variables, *flag_settings(options))


def flag_settings(options: Mapping[str, Any]) -> tuple[GivenSetting, ...]:
    """Settings given by flags. Raises UserError."""
    problems: list[SettingProblem] = []
    given: list[GivenSetting] = []
    for name, section in sections(Settings):
        for one in declared(section):
            value, old = (
                options.get(_parameter(name, one.attribute)),
                options.get(_parameter(name, one.attribute) + _OLD),
            )
            if old is not None:
                value = _renamed(one, value, old)
            if value is None or value == ():
                continue
            place = SettingPlace(f"--{one.flag}")
            try:
                given.append(GivenSetting(name, one, _read(one, value), place, adds=True))
            except ValueError as error:
                problems.append(place.problem(str(error)))
    if problems:
        raise SettingsError(problems)
    return tuple(given)


def _renamed(one: SettingSpec, value: Any, old: Any) -> Any:
    """Value of a flag given by a former name."""
    former = " or ".join(f"--{name}" for name in one.old_flags)
    if value is not None:
        raise UserError(f"{former}: is the old name of --{one.flag}; give only the latter")
    click.echo(f"warning: {former} is deprecated; use --{one.flag}", err=True)
    return old


def _read(one: SettingSpec, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    return one.values.parse_all(value if isinstance(value, tuple) else (value,))


def _chosen(names: tuple[str, ...]) -> Iterator[tuple[str, SettingSpec]]:
    known = dict(sections(Settings))
    for name in names:
        section, _, attribute = name.partition(".")
        for one in declared(known[section]):
            if attribute in ("", one.attribute) and one.flag:
                yield section, one


def _options(section: str, one: SettingSpec) -> Iterator[Callable[[Any], Any]]:
    name = _parameter(section, one.attribute)
    yield _option(one, one.flag, name, f"{one.doc} Default: {_default(one)}.")
    for old in one.old_flags:
        yield _option(one, old, name + _OLD, f"Deprecated name of --{one.flag}.", hidden=True)


def _option(one: SettingSpec, flag: str, name: str, doc: str, *, hidden: bool = False) -> Callable[[Any], Any]:
    if isinstance(one.values, Boolean):
        return click.option(f"--{flag}/--no-{flag}", name, default=None, help=doc, hidden=hidden)
    if one.values.repeated:
        text = f"{doc} May be repeated."
        return click.option(f"--{flag}", name, multiple=True, metavar=one.values.metavar, help=text, hidden=hidden)
    return click.option(f"--{flag}", name, metavar=one.values.metavar, help=doc, hidden=hidden)


def _default(one: SettingSpec) -> str:
    written = one.values.write(one.default)
    if written is None and isinstance(one.values, Nullable):
        return one.values.null_means
    if written is None or written == {} or written == []:
        return "none"
    return str(written).lower() if isinstance(written, bool) else str(written)


def _parameter(section: str, attribute: str) -> str:
    return f"{section}__{attribute}"
