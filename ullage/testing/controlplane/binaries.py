"""Paths of the built programs: the folder named by an environment variable first, then the per-user cache.

Only looks; building is `build.py`.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ullage.errors import UserError
from ullage.testing.controlplane.versions import GoProgram, cache_key

BIN_VARIABLE = "ULLAGE_CONTROLPLANE_BIN"
"""A folder with programs to use instead of the built ones; what it lacks comes from the cache."""


class MissingProgram(UserError):
    """A program is neither in the folder the user named nor in the cache."""


def cache_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Our folder in the user's cache."""
    base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "ullage"


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of the pinned versions: `bin`, `crds` and what a build needs beside them."""
    return cache_home(environment) / "controlplane" / cache_key()


def find(program: GoProgram, environment: Mapping[str, str] = os.environ) -> Path:
    """The program's path, or an error that says how to get it."""
    candidates = [folder / program.value for folder in _bin_folders(environment)]
    for path in candidates:
        if path.is_file() and os.access(path, os.X_OK):
            return path
    places = " or ".join(str(path) for path in candidates)
    raise MissingProgram(f"{program} is not at {places}; run `make controlplane` to build it")


def find_all(programs: Iterable[GoProgram], environment: Mapping[str, str] = os.environ) -> dict[GoProgram, Path]:
    """Paths of all of them; the error names every one that is missing, not only the first."""
    found: dict[GoProgram, Path] = {}
    missing: list[str] = []
    for program in programs:
        try:
            found[program] = find(program, environment)
        except MissingProgram:
            missing.append(program.value)
    if missing:
        places = " or ".join(str(folder) for folder in _bin_folders(environment))
        verb = "is" if len(missing) == 1 else "are"
        raise MissingProgram(
            f"{', '.join(missing)} {verb} not in {places}; run `make controlplane` to build what is missing"
        )
    return found


def karpenter_crds(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Karpenter's CustomResourceDefinitions, one file each: `crds` lies beside `bin`."""
    folders = [folder.parent / "crds" for folder in _bin_folders(environment)]
    for folder in folders:
        if files := sorted(folder.glob("*.yaml")):
            return files
    places = " or ".join(str(folder) for folder in folders)
    raise MissingProgram(f"Karpenter's CRDs are not in {places}; run `make controlplane` to fetch them")


def _bin_folders(environment: Mapping[str, str]) -> list[Path]:
    folders = [cache_folder(environment) / "bin"]
    if given := environment.get(BIN_VARIABLE):
        folders.insert(0, Path(given))
    return folders
