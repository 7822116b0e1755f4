"""Decides on every pod that waits, one after another on one picture, with what the live scheduler decides with.

Pods are taken as the queue takes them: priority, then age, then name; a gang with the first of its members. Who could
be helped by pods that came after it is asked again. Nobody is evicted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.decide.assigning import Assigner, queue_order, waits
from ullage.decide.gang.seating import GangAsk, GangRefusal
from ullage.decide.score.policies import DEFAULT_POLICY
from ullage.decide.seat.deciding import Refusal, Seat
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.verdict import Verdict, Wake
from ullage.state.placements import Placements


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was found beside the picture."""

    unreadable_claims: Mapping[ObjectKey, str] = field(default_factory=dict)
    """GpuClaims that break a rule, with the rule."""


Turn = Pod | GangAsk
Held = Refusal | GangRefusal


def pods_of(turn: Turn) -> tuple[Pod, ...]:
    """Those a turn decides on."""
    return (turn,) if isinstance(turn, Pod) else turn.pending


class Planner:
    """Plans on placements of its own: they hold what it has planned."""

    def __init__(self, placements: Placements, known: Known, *, now: float, policy: str = DEFAULT_POLICY) -> None:
        self.placements = placements
        self.assigner = Assigner(placements, policy, known.unreadable_claims)
        self.seats: dict[ObjectKey, Seat] = {}
        """In the order they were given."""
        self.refused: dict[ObjectKey, Verdict] = {}
        """Pods about which no node need be asked."""
        self.turned_away: dict[ObjectKey, tuple[Turn, Held]] = {}
        """Pods and gangs for which there was no room, by their names."""
        self.gangs: dict[ObjectKey, GangAsk] = {}
        self.now = now
        self._nominated: tuple[Pod, ...] = ()

    def run(self, until: ObjectKey | None = None) -> None:
        """Decide on all who wait, or on those up to and including this pod."""
        turns = self._turns(until)
        self._nominated = tuple(turn for turn in turns if isinstance(turn, Pod) and turn.nominated)
        while turns:
            before = len(self.seats)
            for turn in turns:
                self._decide(turn)
            # Somebody may have waited for pods that came later; nothing else can have become better.
            again = [turn for turn, answer in self.turned_away.values() if Wake.POD_ARRIVED in answer.wakes_on]
            turns = again if len(self.seats) > before else []

    def _turns(self, until: ObjectKey | None) -> list[Turn]:
        turns: list[Turn] = []
        for pod in sorted(filter(waits, self.placements.state.pods.values()), key=queue_order):
            ready = self.assigner.entitled(pod)
            gang = self.assigner.gang_of(pod)
            if isinstance(ready, Verdict):
                self.refused[pod.key] = ready
            elif gang is None:
                turns.append(ready)
            elif gang not in self.gangs:
                self.gangs[gang] = self.assigner.gang_ask(gang)
                turns.append(self.gangs[gang])
        last = next((place for place, turn in enumerate(turns) if until in {pod.key for pod in pods_of(turn)}), None)
        return turns if last is None else turns[: last + 1]

    def _decide(self, turn: Turn) -> None:
        if isinstance(turn, Pod):
            self._decide_pod(turn)
        else:
            self._decide_gang(turn)

    def _decide_pod(self, pod: Pod) -> None:
        answer = self.assigner.assign_pod(pod, self._nominated, now=self.now)
        if isinstance(answer, Refusal):
            self.turned_away[pod.key] = pod, answer
        else:
            self.turned_away.pop(pod.key, None)
            self.seats[pod.key] = answer

    def _decide_gang(self, gang: GangAsk) -> None:
        answer = self.assigner.assign_gang(gang, self._nominated, now=self.now)
        if isinstance(answer, GangRefusal):
            self.turned_away[gang.key] = gang, answer
            return
        self.turned_away.pop(gang.key, None)
        self.seats |= dict(sorted(answer.seats.items()))
        for pod in gang.pending:
            if pod.key not in answer.seats:
                self._decide_pod(pod)
