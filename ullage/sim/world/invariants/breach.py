"""Breach of an invariant, and the names of objects in it."""

from collections.abc import Callable
from dataclasses import dataclass

RACE_SECONDS = 10.0
"""Seconds for which a loop may not yet have observed a change. A decision against so recent a change is no breach."""


@dataclass(frozen=True, slots=True)
class InvariantBreach:
    """An invariant that did not hold."""

    at: float
    """Seconds since the epoch of the simulation."""
    rule: str
    """Invariant, in a few words that are always the same."""
    sentence: str
    about: tuple[str, ...]
    """Objects concerned, as ObjectHistory names them."""


Report = Callable[[InvariantBreach], None]


def pod_name(key: object) -> str:
    return f"pod {key}"


def node_name(name: str) -> str:
    return f"node {name}"


def lease_name(name: str) -> str:
    return f"lease {name}"
