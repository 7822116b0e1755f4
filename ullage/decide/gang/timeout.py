"""Scheduling timeout of a gang that waits, or that is bound only in part.

A waiting gang holds no room. Other things are held for it: GPUs leased while its binds are prepared, nominated nodes,
its turn at the head of the queue. After its timeout all of these are released, and the gang is in back-off for a time
that doubles each time, so that smaller work has its turn. A gang that is bound in part (a crash, a lost member) has its
timeout to complete, or all its members are evicted.
"""

from dataclasses import dataclass

from ullage.model.units import Instant, Seconds

DEFAULT_TIMEOUT = Seconds(300.0)
"""Scheduling timeout in seconds of a gang whose PodGroup sets none."""


@dataclass(frozen=True, slots=True)
class GangBackoff:
    """Back-off of a gang after a timeout, in seconds, doubled each time."""

    first_backoff: Seconds = Seconds(10.0)
    longest_backoff: Seconds = Seconds(300.0)

    def backoff(self, times: int) -> Seconds:
        """Back-off in seconds after this many timeouts."""
        return Seconds(min(self.longest_backoff, self.first_backoff * 2.0 ** min(max(times - 1, 0), 32)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GangProgress:
    """Progress of one gang: members bound, and the instants its timeout counts from."""

    min_member: int
    bound: int
    """Members on nodes, without those that are being deleted."""
    waiting_since: Instant
    """Start of this round: the gang appeared, or its back-off ended."""
    partly_since: Instant | None = None
    """Instant since which some members are bound, but not enough; None if no such instant is known."""
    given_up: int = 0
    """Number of earlier timeouts."""
    timeout: Seconds = DEFAULT_TIMEOUT


@dataclass(frozen=True, slots=True)
class GangComplete:
    """Enough members are bound: nothing to do."""


@dataclass(frozen=True, slots=True)
class GangKeepsTrying:
    """Keep trying; decide again at `until`."""

    until: Instant
    why: str


@dataclass(frozen=True, slots=True)
class GangBacksOff:
    """Release what is held or nominated for the gang, and do not try it before `again_at`."""

    again_at: Instant
    why: str


@dataclass(frozen=True, slots=True)
class EvictPartialGang:
    """Evict every bound member: part of a gang does no work."""

    why: str


Fate = GangComplete | GangKeepsTrying | GangBacksOff | EvictPartialGang


def gang_fate(gang: GangProgress, *, now: Instant, pace: GangBackoff = GangBackoff()) -> Fate:  # noqa: B008 - frozen
    """Decide what to do about a gang now."""
    if gang.bound >= gang.min_member:
        return GangComplete()
    count = f"{gang.bound} of {gang.min_member} members are bound"
    if gang.bound:
        began = gang.waiting_since if gang.partly_since is None else gang.partly_since
        if now >= began + gang.timeout:
            return EvictPartialGang(f"{count} after {gang.timeout:g} s")
        return GangKeepsTrying(Instant(began + gang.timeout), f"{count}, the rest may still come")
    if now >= gang.waiting_since + gang.timeout:
        delay = pace.backoff(gang.given_up + 1)
        return GangBacksOff(
            Instant(now + delay), f"no places for {gang.min_member} within {gang.timeout:g} s: back in {delay:g} s"
        )
    return GangKeepsTrying(Instant(gang.waiting_since + gang.timeout), "waiting for places, holding none")
