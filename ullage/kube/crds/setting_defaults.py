"""Defaults that fields of custom resources share with settings: those declared with `crd=` in `config.settings`."""

from functools import cache
from typing import Any

from ullage.config.declaration import SettingSpec, declared, sections
from ullage.config.settings import Settings


@cache
def shared_settings() -> dict[str, SettingSpec]:
    """Settings by the field of a NodeProvisioner that has their default."""
    return {one.crd: one for _, section in sections(Settings) for one in declared(section) if one.crd}


def crd_default(field: str) -> Any:
    """Default of a field, as it would stand in a file."""
    spec = shared_settings()[field]
    return spec.values.write(spec.default)
