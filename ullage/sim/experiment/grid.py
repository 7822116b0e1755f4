"""Grid of settings: all combinations of the values of all keys. Pure."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ullage.config.loading import override
from ullage.config.settings import Settings
from ullage.errors import UserError

SEED = "seed"
"""Key for the seed of a run, which is no setting."""
MOST_RUNS = 10_000


@dataclass(frozen=True, slots=True)
class GridAxis:
    """A key and the values it takes."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GridPoint:
    """One combination."""

    label: str
    group: str
    """Label without the seed."""
    settings: Settings
    seed: int


def read_axis(text: str) -> GridAxis:
    """Read an axis: `scheduling.policy=packing,spread`.

    Values are YAML, and brackets keep commas together. Raises UserError.
    """
    key, equals, values = text.partition("=")
    found = tuple(part.strip() for part in _split(values))
    if not equals or not key or not found or "" in found:
        raise UserError(f"--sweep: {text!r} is not KEY=VALUE,VALUE…, such as scheduling.policy=packing,spread")
    if len(set(found)) != len(found):
        raise UserError(f"--sweep: {text!r} has a value twice")
    return GridAxis(key.strip(), found)


def grid(base: Settings, axes: Sequence[GridAxis], seed: int) -> list[GridPoint]:
    """All combinations; the last axis changes first. Raises UserError."""
    if len({axis.key for axis in axes}) != len(axes):
        raise UserError("--sweep: a key is given twice; put all its values in one --sweep")
    cells: list[GridPoint] = []
    for values in itertools.product(*(axis.values for axis in axes)):
        settings, chosen = base, seed
        for axis, value in zip(axes, values, strict=True):
            if axis.key == SEED:
                chosen = _seed(value)
            else:
                settings = override(settings, axis.key, value, "--sweep")
        named = [(axis.key, f"{axis.key}={value}") for axis, value in zip(axes, values, strict=True)]
        group = " ".join(name for key, name in named if key != SEED) or "all seeds"
        cells.append(GridPoint(" ".join(name for _, name in named), group, settings, chosen))
        if len(cells) > MOST_RUNS:
            raise UserError(f"--sweep: more than {MOST_RUNS} combinations; give fewer values")
    return cells


def _seed(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UserError(f"--sweep: seed: {text!r} is not a whole number") from error


def _split(text: str) -> list[str]:
    """Split at commas that are not inside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
