"""A rule that must always hold and did not, with its story; and the file that brings one there again."""

from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec

from ullage.errors import UserError
from ullage.sim.actors.start import ActorSettings
from ullage.sim.world.spec import Arrival, WorldSpec

FORMAT = "ullage-simulation/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """What was broken, and how it came to that."""

    at: float
    """Seconds since the beginning."""
    rule: str
    breach: str
    """One sentence."""
    about: tuple[str, ...]
    """The objects concerned: `pod default/a`, `node gpu-1`, `lease gpu-gpu-1-0`."""
    story: tuple[str, ...]
    """The last things that happened to them, one a line."""


def violation_file(spec: WorldSpec, arrivals: tuple[Arrival, ...], violation: Violation) -> bytes:
    """Seed, spec, and what arrived up to then: the same run again, by `load_replay`."""
    so_far = [one for one in arrivals if one.at <= violation.at]
    plain = {
        "format": FORMAT,
        "violation": msgspec.to_builtins(violation),
        "spec": _plain_spec(spec),
        "arrivals": msgspec.to_builtins(so_far),
    }
    return msgspec.json.format(msgspec.json.encode(plain), indent=1)


def load_replay(text: bytes) -> tuple[WorldSpec, tuple[Arrival, ...]]:
    """What a violation file says. Raises UserError."""
    try:
        plain = msgspec.json.decode(text)
        if plain["format"] != FORMAT:
            raise UserError(f"not a replay file of format {FORMAT}: format is {plain['format']}")
        return _read_spec(plain["spec"]), msgspec.convert(plain["arrivals"], tuple[Arrival, ...])
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise UserError(f"not a replay file: {error}") from error


def is_replay(text: bytes) -> bool:
    """Whether it is one at all, rather than a dump of a cluster."""
    return FORMAT.encode() in text[:200]


def _plain_spec(spec: WorldSpec) -> dict[str, Any]:
    """Kinds beside our own that actors collect are not written: the world adds them by itself."""
    return msgspec.to_builtins(replace(spec, actors=replace(spec.actors, custom=())))  # type: ignore[no-any-return]


def _read_spec(plain: dict[str, Any]) -> WorldSpec:
    """Field by field: not every type among them can be read as a whole."""
    hints = {one.name: one.type for one in fields(WorldSpec)}
    found = {name: msgspec.convert(value, hints[name]) for name, value in plain.items() if name != "actors"}
    actors = {one.name: one.type for one in fields(ActorSettings)}
    settings = {name: msgspec.convert(value, actors[name]) for name, value in plain["actors"].items() if value != []}
    return WorldSpec(**found, actors=ActorSettings(**settings))
