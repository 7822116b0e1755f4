"""Durations of a pool's nodes and instances as one process has observed them, by a monotonic clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.model.units import Instant, Seconds, Steady


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """Observation of an instance without a Node, or of a Node without its GPUs."""

    seconds: Seconds
    """Seconds since it was first observed so."""
    age: Seconds
    """Age in seconds at that first observation, by its time stamp and our clock."""
    had_node: bool = False
    """It had a Node before, and that was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListHorizon:
    """Time up to which the instance lists of a provider are known."""

    until: Steady
    """Beginning of the last list that was answered; now where the provider announces changes."""
    staleness: Seconds
    """Seconds by which a list may be old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Durations known beyond time stamps. Where none is known, time stamps count."""

    machines: Mapping[str, Sighting] = field(default_factory=dict)
    """Instances without a Node, by instance id."""
    bare: Mapping[str, Sighting] = field(default_factory=dict)
    """Nodes without GPUs, by name."""
    due_at: Mapping[str, Instant] = field(default_factory=dict)
    """Nodes marked for deletion that are due at another instant than their taint says, because a clock was wrong."""
    silent: Mapping[str, Seconds] = field(default_factory=dict)
    """Seconds since the agent of a node was first found silent."""
    unlisted: Mapping[str, Seconds] = field(default_factory=dict)
    """Seconds until a node that is marked for deletion, not ready and in no list counts as one without an instance."""


NOTHING_SEEN = Seen()
