"""Ways to place the members of a gang one after another. Each is tried in a what-if and undone.

`gang.placement` decides how many placements are enough and which attempt wins.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.engine import NoFit, Placement, PlacementEngine, hold
from ullage.decide.placement.filters.codes import FITS, Codes, first_of
from ullage.decide.placement.score_view import CPU
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.units import Instant
from ullage.model.verdict import Reason

ZONE = "topology.kubernetes.io/zone"

MOST_STEPS = 256
"""Placements tried before a search for a gang of unequal members gives up."""

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class GangAttempt:
    """Placements by member, and the NoFit of the first member without one."""

    placements: dict[ObjectKey, Placement] = field(default_factory=dict)
    refusal: NoFit | None = None
    refused: Pod | None = None
    """That member."""

    @property
    def nodes(self) -> int:
        return len({placement.node for placement in self.placements.values()})


def largest_first(members: Iterable[Pod]) -> list[Pod]:
    """Members in the order they are placed: largest requests first, then by name."""
    return sorted(members, key=lambda pod: (*(-amount for amount in _size(pod)), pod.key))


def interchangeable(members: Sequence[Pod]) -> bool:
    """True if members can swap nodes freely: one shape, no rule about itself. Placing them one by one then suffices."""
    shapes = {pod.shape for pod in members}
    return len(shapes) <= 1 and not any(shape.looks_at_itself for shape in shapes)


def _size(pod: Pod) -> tuple[int, int, int, int]:
    requests, ask = dict(pod.shape.requests), pod.shape.devices
    memory = 0 if ask is None else ask.memory
    return requests.get(GPU, 0), memory, requests.get(CPU, 0), requests.get("memory", 0)


class GangAttempts:
    """Placement attempts for one gang at one instant. `home` are the nodes of its bound members."""

    def __init__(
        self, engine: PlacementEngine, home: Iterable[str], *, now: Instant, closed: Codes | None = None
    ) -> None:
        self._engine = engine
        self._snapshot = engine.snapshot
        self._home = tuple(dict.fromkeys(home))
        self._now = now
        self._closed = closed

    def close(self, members: Sequence[Pod]) -> GangAttempt:
        """Place members in this order on nodes the gang already has; a new node only if none of those fits."""
        placements: dict[ObjectKey, Placement] = {}
        refusal: NoFit | None = None
        refused: Pod | None = None
        nodes = dict.fromkeys(self._home)
        with self._snapshot.what_if():
            for place, pod in enumerate(members):
                node = self._node_for(pod, list(nodes), members[place:])
                placement = None if node is None else self._engine.place_on(pod, node, now=self._now)
                if isinstance(placement, Placement):
                    hold(self._snapshot, pod, placement)
                    placements[pod.key] = placement
                    nodes[placement.node] = None
                elif refusal is None:
                    refusal, refused = self._refused(pod), pod
        return GangAttempt(placements, refusal, refused)

    def by_policy(self, members: Sequence[Pod]) -> GangAttempt:
        """Place members in this order, each on the node that ranks best for it alone."""
        placements: dict[ObjectKey, Placement] = {}
        refusal: NoFit | None = None
        refused: Pod | None = None
        with self._snapshot.what_if():
            for pod in members:
                answer = self._engine.place(pod, now=self._now, closed=self._closed)
                if isinstance(answer, Placement):
                    hold(self._snapshot, pod, answer)
                    placements[pod.key] = answer
                elif refusal is None:
                    refusal, refused = answer, pod
        return GangAttempt(placements, refusal, refused)

    def search(self, members: Sequence[Pod]) -> GangAttempt:
        """Place all of these members or none, by backtracking: finds what a fixed order misses, within `MOST_STEPS`."""
        found, _ = self._extended(members, MOST_STEPS)
        return GangAttempt(found or {})

    def _extended(self, members: Sequence[Pod], steps: int) -> tuple[dict[ObjectKey, Placement] | None, int]:
        """Placements for all of these members (None if not found), and the number of steps left."""
        if not members:
            return {}, steps
        pod = members[0]
        for row in self._by_room(self._fitting(pod), members):
            if steps <= 0:
                break
            steps -= 1
            placement = self._engine.place_on(pod, self._snapshot.columns.names[row], now=self._now)
            if isinstance(placement, Reason):
                continue
            with self._snapshot.what_if():
                hold(self._snapshot, pod, placement)
                found, steps = self._extended(members[1:], steps)
            if found is not None:
                return {pod.key: placement} | found, steps
        return None, steps

    def _refused(self, pod: Pod) -> NoFit | None:
        answer = self._engine.place(pod, now=self._now, closed=self._closed)
        return answer if isinstance(answer, NoFit) else None

    def _fitting(self, pod: Pod) -> Rows:
        """Rows that fit the pod, in the order of node names."""
        by_name = self._snapshot.columns.by_name
        codes = self._engine.codes(pod, now=self._now)
        if self._closed is not None:
            codes = first_of(codes, self._closed)
        fits: Rows = by_name[codes[by_name] == FITS]
        return fits

    def _node_for(self, pod: Pod, nodes: list[str], waiting: Sequence[Pod]) -> str | None:
        fitting = self._fitting(pod)
        if not len(fitting):
            return None
        columns = self._snapshot.columns
        rows = [columns.rows[node] for node in nodes if node in columns.rows]
        here = set(fitting.tolist())
        row = next((row for row in rows if row in here), None)
        return columns.names[self._opened(fitting, rows, waiting) if row is None else row]

    def _opened(self, fitting: Rows, gang: list[int], waiting: Sequence[Pod]) -> int:
        """Row of the next node, near the gang: the tightest that holds all waiting members, else the roomiest."""
        wanted, room = self._wanted(waiting), self._room(fitting, waiting)
        zones = self._snapshot.labels.column(ZONE).codes
        near = np.isin(zones[fitting], sorted({int(zones[row]) for row in gang}))
        if not near.any():
            near = _roomiest_zone(zones[fitting], room, wanted)
        fitting, room = fitting[near], room[near]
        holds = room >= wanted
        return int(fitting[holds][room[holds].argmin()] if holds.any() else fitting[room.argmax()])

    def _by_room(self, fitting: Rows, waiting: Sequence[Pod]) -> list[int]:
        """Rows by free room, the tightest first."""
        rows: list[int] = fitting[np.argsort(self._room(fitting, waiting), kind="stable")].tolist()
        return rows

    def _room(self, rows: Rows, waiting: Sequence[Pod]) -> npt.NDArray[np.int64]:
        columns = self._snapshot.columns
        index = columns.resource(_measure(waiting))
        room: npt.NDArray[np.int64] = columns.free[index, rows]
        return room

    def _wanted(self, waiting: Sequence[Pod]) -> int:
        measure = _measure(waiting)
        return sum(dict(pod.shape.requests).get(measure, 0) for pod in waiting)


def _measure(members: Sequence[Pod]) -> str:
    """Resource a gang is measured by: GPUs if any member requests one, else CPU."""
    return GPU if any(name == GPU for pod in members for name, _ in pod.shape.requests) else CPU


def _roomiest_zone(zones: npt.NDArray[np.int32], room: npt.NDArray[np.int64], wanted: int) -> npt.NDArray[np.bool_]:
    """Rows of the tightest zone that holds all waiting members, else of the roomiest; all rows if one row holds all."""
    if (room >= wanted).any():
        return np.ones(len(zones), np.bool_)
    rooms = {zone: int(room[zones == zone].sum()) for zone in dict.fromkeys(zones.tolist())}
    chosen = min(rooms, key=lambda zone: (rooms[zone] < wanted, rooms[zone] if rooms[zone] >= wanted else -rooms[zone]))
    inside: npt.NDArray[np.bool_] = zones == chosen
    return inside
