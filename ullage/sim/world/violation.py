"""A broken invariant with the history of its objects, and the file that replays the run up to it."""

from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec

from ullage.errors import UserError
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.world.spec import Arrival, WorldSpec

FORMAT = "ullage-simulation/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantViolation:
    """Broken invariant, and the changes that led to it."""

    at: float
    """Seconds since the beginning."""
    rule: str
    breach: str
    """One sentence."""
    about: tuple[str, ...]
    """Objects concerned: `pod default/a`, `node gpu-1`, `lease gpu-gpu-1-0`."""
    story: tuple[str, ...]
    """Latest changes of these objects, one a line."""


def violation_file(spec: WorldSpec, arrivals: tuple[Arrival, ...], violation: InvariantViolation) -> bytes:
    """Seed, spec and arrivals up to the breach. `load_replay` reads it to run the same again."""
    so_far = [one for one in arrivals if one.at <= violation.at]
    plain = {
        "format": FORMAT,
        "violation": msgspec.to_builtins(violation),
        "spec": _plain_spec(spec),
        "arrivals": msgspec.to_builtins(so_far),
    }
    return msgspec.json.format(msgspec.json.encode(plain), indent=1)


def load_replay(text: bytes) -> tuple[WorldSpec, tuple[Arrival, ...]]:
    """Spec and arrivals of a violation file. Raises UserError."""
    try:
        plain = msgspec.json.decode(text)
        if plain["format"] != FORMAT:
            raise UserError(f"not a replay file of format {FORMAT}: format is {plain['format']}")
        return _read_spec(plain["spec"]), msgspec.convert(plain["arrivals"], tuple[Arrival, ...])
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise UserError(f"not a replay file: {error}") from error


def is_replay(text: bytes) -> bool:
    """True if the text is a violation file and not a dump of a cluster."""
    return FORMAT.encode() in text[:200]


def _plain_spec(spec: WorldSpec) -> dict[str, Any]:
    """Spec as plain data.

    Kinds other than ours that the controllers collect are left out: the world adds them by itself.
    """
    return msgspec.to_builtins(replace(spec, actors=replace(spec.actors, custom=())))  # type: ignore[no-any-return]


def _read_spec(plain: dict[str, Any]) -> WorldSpec:
    """Field by field: not every type among them can be read as a whole."""
    hints = {one.name: one.type for one in fields(WorldSpec)}
    found = {name: msgspec.convert(value, hints[name]) for name, value in plain.items() if name != "actors"}
    actors = {one.name: one.type for one in fields(ControllerManagerSettings)}
    settings = {name: msgspec.convert(value, actors[name]) for name, value in plain["actors"].items() if value != []}
    return WorldSpec(**found, actors=ControllerManagerSettings(**settings))
