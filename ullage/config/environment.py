"""Settings from environment variables: `ULLAGE_` and the setting's path, such as ULLAGE_DRAINING_SCAN_INTERVAL.

A variable that begins like a section of ours and names no setting is an error: a misspelled one is never ignored.
"""

import re
from collections.abc import Mapping

from ullage.config.declaration import VARIABLE_PREFIX, declared, sections, variable
from ullage.config.loading import GivenSetting, SettingPlace
from ullage.config.settings import Settings
from ullage.config.values import meant
from ullage.config.yaml_document import SettingProblem, SettingsError

_SERVICE_LINK = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\w+)?)$")
"""Kubelet sets such variables for every Service of the namespace; a Service may be called as a section is."""


def environment_settings(environment: Mapping[str, str]) -> tuple[GivenSetting, ...]:
    """Settings that the environment gives. Raises SettingsError with all that is wrong."""
    known = {variable(name, one): (name, one) for name, section in sections(Settings) for one in declared(section)}
    begins = tuple(f"{VARIABLE_PREFIX}_{name}_".upper() for name, _ in sections(Settings))
    problems: list[SettingProblem] = []
    given: list[GivenSetting] = []
    for name, text in sorted(environment.items()):
        place = SettingPlace(name)
        if name in known:
            section, spec = known[name]
            try:
                given.append(GivenSetting(section, spec, spec.values.parse_all((text,)), place, adds=True))
            except ValueError as error:
                problems.append(place.problem(str(error)))
        elif name.startswith(begins) and not _SERVICE_LINK.search(name):
            problems.append(place.problem(f"there is no such setting{meant(name, tuple(known))}"))
    if problems:
        raise SettingsError(problems)
    return tuple(given)
