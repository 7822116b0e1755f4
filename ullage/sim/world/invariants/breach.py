"""How a check says that something does not hold."""

from collections.abc import Callable
from dataclasses import dataclass

RACE_SECONDS = 10.0
"""Who decides is a moment behind: what changed so shortly before may not have been known."""


@dataclass(frozen=True, slots=True)
class Breach:
    """Something that must always hold did not."""

    at: float
    """Seconds since the epoch of the simulation."""
    rule: str
    """Which rule, in a few words that are always the same."""
    sentence: str
    about: tuple[str, ...]
    """The objects concerned, as `stories` name them."""


Report = Callable[[Breach], None]


def pod_name(key: object) -> str:
    return f"pod {key}"


def node_name(name: str) -> str:
    return f"node {name}"


def lease_name(name: str) -> str:
    return f"lease {name}"
