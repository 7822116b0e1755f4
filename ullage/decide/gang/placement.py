"""Placement of a whole gang: placements for enough of its members, or the reasons for none.

Nothing is held between decisions. A gang that does not fit leaves the snapshot as it was. So two gangs that compete for
the last nodes cannot block each other: the first gang decided while there is room gets all it needs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ullage.decide.gang.attempts import GangAttempt, GangAttempts, interchangeable, largest_first
from ullage.decide.placement.engine import NoFit, Placement, PlacementEngine, hold
from ullage.decide.placement.filters.codes import Codes
from ullage.decide.placement.reasons import CURES
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.units import Instant
from ullage.model.verdict import ClusterEvent, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRequest:
    """A gang to be placed. The shapes of its pods include what their claims ask for."""

    key: ObjectKey
    min_member: int
    pending: tuple[Pod, ...]
    """Members that hold no room in the snapshot."""
    bound: tuple[Pod, ...] = ()
    """Members that have a node or have finished. A pod that is being deleted is no longer a member."""

    @property
    def needed(self) -> int:
        """Number of further members that must be placed, at least 1: a complete gang asks for late members."""
        return max(self.min_member - len(self.bound), 1)


@dataclass(frozen=True, slots=True)
class GangPlacement:
    """Placements for enough members, and for as many more as fit."""

    placements: Mapping[ObjectKey, Placement]
    waiting: tuple[ObjectKey, ...] = ()
    """Members beyond the needed number that got no placement."""


@dataclass(frozen=True, slots=True)
class GangNoFit:
    """No member is placed."""

    gang: ObjectKey
    placed: int
    """Number of members that could be placed together; of members present if too few are."""
    needed: int
    refusal: NoFit | None
    """NoFit of the first member without a placement; None if members are missing."""
    refused: Pod | None = field(default=None, compare=False)
    """That member."""
    beside: tuple[tuple[Pod, Placement], ...] = field(default=(), compare=False)
    """Members that could be placed, where they were when it was refused."""

    @property
    def reasons(self) -> Mapping[Reason, int]:
        return {Reason.GANG_INCOMPLETE: 1} if self.refusal is None else self.refusal.reasons

    @property
    def wakes_on(self) -> frozenset[ClusterEvent]:
        """Cluster events that can change the answer. Another member may be one that fits."""
        own = CURES[Reason.GANG_INCOMPLETE].wakes_on
        return own if self.refusal is None else own | self.refusal.wakes_on

    def __str__(self) -> str:
        if self.refusal is None:
            return f"gang {self.gang}: {self.placed} of the {self.needed} members it needs are there"
        return f"gang {self.gang}: places for {self.placed} of the {self.needed} it needs; then {self.refusal}"


def place_gang(
    engine: PlacementEngine, gang: GangRequest, *, now: Instant, closed: Codes | None = None
) -> GangPlacement | GangNoFit:
    """Place the gang: its placements hold room in the snapshot from now on. A refusal leaves the snapshot as before.

    `closed` has the codes of rows refused for other reasons.
    """
    if len(gang.pending) < gang.needed:
        return GangNoFit(gang.key, len(gang.pending), gang.needed, None)
    best = max(_attempts(engine, gang, now, closed), key=lambda attempt: (len(attempt.placements), -attempt.nodes))
    if len(best.placements) < gang.needed:
        refusal = best.refusal or NoFit(0, {})
        beside = tuple((pod, best.placements[pod.key]) for pod in gang.pending if pod.key in best.placements)
        return GangNoFit(gang.key, len(best.placements), gang.needed, refusal, best.refused, beside)
    for pod in gang.pending:
        if pod.key in best.placements:
            hold(engine.snapshot, pod, best.placements[pod.key])
    return GangPlacement(
        best.placements, tuple(sorted(pod.key for pod in gang.pending if pod.key not in best.placements))
    )


def _attempts(engine: PlacementEngine, gang: GangRequest, now: Instant, closed: Codes | None) -> Iterator[GangAttempt]:
    """Attempts in turn until all members are placed; the later ones are for gangs that are hard to place."""
    tried = GangAttempts(engine, (pod.node for pod in gang.bound), now=now, closed=closed)
    ordered = largest_first(gang.pending)
    close = tried.close(ordered)
    yield close
    if len(close.placements) == len(ordered):
        return
    policy = tried.by_policy(ordered)
    yield policy
    if interchangeable(ordered) or len(policy.placements) == len(ordered):
        return
    # Many small members may fit where the large ones take all the room.
    small = tried.close(ordered[::-1])
    yield small
    if max(len(attempt.placements) for attempt in (close, policy, small)) < gang.needed:
        yield tried.search(ordered[-gang.needed :])
