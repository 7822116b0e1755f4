"""What the scheduler would do with every pod that waits, told so that people and programs can read it.

`planning` decides; here it is put in words. Nothing is read or written, and nobody is evicted.
"""

from dataclasses import dataclass

from ullage.decide.advice import Advice
from ullage.decide.assigning import queue_order
from ullage.decide.planning import Held, Known, Planner
from ullage.decide.score.policies import DEFAULT_POLICY
from ullage.decide.seat.deciding import Seat
from ullage.decide.seat.grounds import Ground, grounds, pod_ground
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.model.verdict import Reason
from ullage.state.placements import Placements

MOST_ENDINGS = 16
"""Shapes for which pods are looked for whose end would make room: each look is a preemption over all nodes."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A pod that gets a seat."""

    pod: ObjectKey
    seat: Seat


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A pod that gets none."""

    pod: ObjectKey
    grounds: tuple[Ground, ...]
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlan:
    """What becomes of a gang."""

    gang: ObjectKey
    min_member: int
    members: tuple[ObjectKey, ...]
    """Those that wait, and those that are on nodes already."""
    bound: int
    placed: int
    detail: str = ""
    """Why none of those that wait is placed, if none is."""


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """What would be done, in the order it was decided, and for whom nothing can be."""

    placements: tuple[Placement, ...]
    unschedulable: tuple[Unplaced, ...]
    gangs: tuple[GangPlan, ...]


def plan_schedule(placements: Placements, known: Known, *, now: float, policy: str = DEFAULT_POLICY) -> SchedulePlan:
    """The plan for all who wait. The placements hold what is planned afterwards."""
    planner = Planner(placements, known, now=now, policy=policy)
    planner.run()
    return told(planner)


def told(planner: Planner) -> SchedulePlan:
    """What a planner has decided. Reasons are as things are at the end: with all that was placed."""
    placed = tuple(Placement(key, seat) for key, seat in planner.seats.items())
    return SchedulePlan(placed, tuple(_Telling(planner).unplaced()), tuple(_gangs(planner)))


class _Telling:
    """Puts refusals in words; pods of one shape are told the same."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._pods = planner.placements.state.pods
        self._nodes = len(planner.placements.columns.rows)
        self._advice = Advice(planner.assigner.seating, now=planner.now)
        self._known: dict[tuple[Shape, str], tuple[tuple[Ground, ...], tuple[str, ...]]] = {}

    def unplaced(self) -> list[Unplaced]:
        found: list[Unplaced] = []
        for key, verdict in self._planner.refused.items():
            ground = pod_ground(verdict, self._nodes)
            found.append(Unplaced(key, (ground,), self._advice.steps(self._pods[key], (ground,))))
        for turn, answer in self._planner.turned_away.values():
            if isinstance(turn, Pod):
                found.append(Unplaced(turn.key, *self._why(turn, answer)))
            else:
                found += [self._member(pod, answer) for pod in turn.pending]
        return sorted(found, key=lambda one: queue_order(self._pods[one.pod]))

    def _why(self, pod: Pod, answer: Held) -> tuple[tuple[Ground, ...], tuple[str, ...]]:
        kind = (pod.shape, pod.key.namespace)
        known = self._known.get(kind)
        if known is not None and not self._planner.placements.refusals.about(pod):
            return known
        planner = self._planner
        closed = planner.assigner.closed(pod)
        found = grounds(
            planner.assigner.seating, pod, now=planner.now, closed=closed, why_closed=planner.assigner.quota_detail(pod)
        )
        found = found or _counted(answer)
        steps = self._advice.steps(pod, found, endings=len(self._known) < MOST_ENDINGS)
        known = self._known[kind] = tuple(found), steps
        return known

    def _member(self, pod: Pod, answer: Held) -> Unplaced:
        """A member is refused for what its gang is."""
        whole = Ground(Reason.GANG_INCOMPLETE, self._nodes, "", str(answer))
        others = [ground for ground in _counted(answer) if ground.reason is not whole.reason]
        return Unplaced(pod.key, (whole, *others), self._advice.steps(pod, (whole,), endings=False))


def _counted(answer: Held) -> list[Ground]:
    return [Ground(reason, count) for reason, count in answer.reasons.items()]


def _gangs(planner: Planner) -> list[GangPlan]:
    plans = []
    for key, gang in sorted(planner.gangs.items()):
        turned_away = planner.turned_away.get(key)
        plans.append(
            GangPlan(
                gang=key,
                min_member=gang.min_member,
                members=tuple(sorted(pod.key for pod in (*gang.pending, *gang.bound))),
                bound=len(gang.bound),
                placed=sum(pod.key in planner.seats for pod in gang.pending),
                detail="" if turned_away is None else str(turned_away[1]),
            )
        )
    return plans
