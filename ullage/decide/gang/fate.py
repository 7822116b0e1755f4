"""What becomes of a gang that waits, or that is there only in part.

A gang that waits holds nothing, so it is in nobody's way; only what is being done for it could be: GPUs leased while
its binds are prepared, nodes nominated for it, its turn at the head of the queue. After its timeout all of that is let
go, and it stands back for a while that doubles each time, so that smaller work has its turn. A gang that was bound in
part (a crash, a lost member) has its timeout to complete, or is evicted whole.
"""

from dataclasses import dataclass

DEFAULT_TIMEOUT = 300.0
"""Seconds a gang may take where its PodGroup does not say."""


@dataclass(frozen=True, slots=True)
class GangPace:
    """Seconds a gang stands back after it gave up, doubled each time."""

    first_backoff: float = 10.0
    longest_backoff: float = 300.0

    def backoff(self, times: int) -> float:
        """After it gave up this many times."""
        return min(self.longest_backoff, self.first_backoff * 2.0 ** min(max(times - 1, 0), 32))


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFacts:
    """How a gang stands."""

    min_member: int
    bound: int
    """Members on nodes, those that are being deleted left out."""
    waiting_since: float
    """When this round of trying began: the gang appeared, or came back from standing back."""
    partly_since: float | None = None
    """Since when some members, but not enough, are bound."""
    given_up: int = 0
    """How often it gave up before."""
    timeout: float = DEFAULT_TIMEOUT


@dataclass(frozen=True, slots=True)
class Whole:
    """Enough members are bound: nothing is to be done."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Go on trying; ask again at this moment."""

    until: float
    why: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Let go of whatever is held or nominated for it, and do not try it before this moment."""

    again_at: float
    why: str


@dataclass(frozen=True, slots=True)
class EvictWhole:
    """Evict every member that is bound: part of a gang is of no use to anybody."""

    why: str


Fate = Whole | Wait | GiveUp | EvictWhole


def gang_fate(gang: GangFacts, *, now: float, pace: GangPace = GangPace()) -> Fate:  # noqa: B008 - frozen
    """What is to be done about a gang at this moment."""
    if gang.bound >= gang.min_member:
        return Whole()
    count = f"{gang.bound} of {gang.min_member} members are bound"
    if gang.bound:
        began = gang.waiting_since if gang.partly_since is None else gang.partly_since
        if now >= began + gang.timeout:
            return EvictWhole(f"{count} after {gang.timeout:g} s")
        return Wait(began + gang.timeout, f"{count}, the rest may still come")
    if now >= gang.waiting_since + gang.timeout:
        delay = pace.backoff(gang.given_up + 1)
        return GiveUp(now + delay, f"no seats for {gang.min_member} within {gang.timeout:g} s: back in {delay:g} s")
    return Wait(gang.waiting_since + gang.timeout, "waiting for seats, holding none")
