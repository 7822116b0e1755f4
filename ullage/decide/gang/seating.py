"""A whole gang, one answer: seats for enough of its members, or why nobody gets one.

Nothing is held between decisions. A gang that does not fit leaves the picture exactly as it was, so two gangs that
compete for the last nodes cannot hold each other up: whoever is asked first while there is room has all of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ullage.decide.fit.codes import Codes
from ullage.decide.gang.attempts import Attempt, Attempts, interchangeable, largest_first
from ullage.decide.seat.deciding import Refusal, Seat, Seating, hold
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.verdict import CURES, Reason, Wake


@dataclass(frozen=True, slots=True, kw_only=True)
class GangAsk:
    """A gang that wants seats. Its pods carry what their claims ask for."""

    key: ObjectKey
    min_member: int
    pending: tuple[Pod, ...]
    """Members that hold no room."""
    bound: tuple[Pod, ...] = ()
    """Members that have a node already or have done their work; one that is being deleted is no longer a member."""

    @property
    def needed(self) -> int:
        """How many more must get a seat. A gang that is whole already asks for those who came late: one at least."""
        return max(self.min_member - len(self.bound), 1)


@dataclass(frozen=True, slots=True)
class GangSeats:
    """Seats for enough members, and for as many more as fit."""

    seats: Mapping[ObjectKey, Seat]
    waiting: tuple[ObjectKey, ...] = ()
    """Members beyond what the gang needs that got none."""


@dataclass(frozen=True, slots=True)
class GangRefusal:
    """Nobody gets a seat."""

    gang: ObjectKey
    seated: int
    """How many could have been seated at once."""
    needed: int
    refusal: Refusal | None
    """What the first without a seat was told; None where members are missing."""

    @property
    def reasons(self) -> Mapping[Reason, int]:
        return {Reason.GANG_INCOMPLETE: 1} if self.refusal is None else self.refusal.reasons

    @property
    def wakes_on(self) -> frozenset[Wake]:
        """The news that can change it. Another member may be one that fits."""
        own = CURES[Reason.GANG_INCOMPLETE].wakes_on
        return own if self.refusal is None else own | self.refusal.wakes_on

    def __str__(self) -> str:
        if self.refusal is None:
            return f"gang {self.gang}: {self.seated} of the {self.needed} members it needs are there"
        return f"gang {self.gang}: seats for {self.seated} of the {self.needed} it needs; then {self.refusal}"


def seat_gang(seating: Seating, gang: GangAsk, *, now: float, closed: Codes | None = None) -> GangSeats | GangRefusal:
    """Seats for the gang, which hold room in the picture from now on; or a refusal, and the picture is as before.

    `closed` has codes of rows that are refused for other reasons.
    """
    if len(gang.pending) < gang.needed:
        return GangRefusal(gang.key, len(gang.pending), gang.needed, None)
    best = max(_attempts(seating, gang, now, closed), key=lambda attempt: (len(attempt.seats), -attempt.nodes))
    if len(best.seats) < gang.needed:
        refusal = best.refusal or Refusal(0, {})
        return GangRefusal(gang.key, len(best.seats), gang.needed, refusal)
    for pod in gang.pending:
        if pod.key in best.seats:
            hold(seating.placements, pod, best.seats[pod.key])
    return GangSeats(best.seats, tuple(sorted(pod.key for pod in gang.pending if pod.key not in best.seats)))


def _attempts(seating: Seating, gang: GangAsk, now: float, closed: Codes | None) -> Iterator[Attempt]:
    """One way after the other until everybody has a seat; those who come later are for gangs that are hard to seat."""
    tried = Attempts(seating, (pod.node for pod in gang.bound), now=now, closed=closed)
    ordered = largest_first(gang.pending)
    close = tried.close(ordered)
    yield close
    if len(close.seats) == len(ordered):
        return
    policy = tried.by_policy(ordered)
    yield policy
    if interchangeable(ordered) or len(policy.seats) == len(ordered):
        return
    # Many small members may fit where the large ones take all the room.
    small = tried.close(ordered[::-1])
    yield small
    if max(len(attempt.seats) for attempt in (close, policy, small)) < gang.needed:
        yield tried.search(ordered[-gang.needed :])
