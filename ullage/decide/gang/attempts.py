"""Ways to seat the members of a gang one after another. Each is tried in a what-if that leaves no trace.

What counts as enough, and which attempt wins, is not said here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ullage.decide.fit.codes import FITS, Codes, first_of
from ullage.decide.seat.deciding import Refusal, Seat, Seating, hold
from ullage.decide.seat.view import CPU
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.verdict import Reason

ZONE = "topology.kubernetes.io/zone"

MOST_STEPS = 256
"""Seats looked at before a search for a gang of unequal members gives up."""

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who would sit where, and what the first without a seat was told."""

    seats: dict[ObjectKey, Seat] = field(default_factory=dict)
    refusal: Refusal | None = None

    @property
    def nodes(self) -> int:
        return len({seat.node for seat in self.seats.values()})


def largest_first(members: Iterable[Pod]) -> list[Pod]:
    """The order in which members are seated: who needs most first, then by name."""
    return sorted(members, key=lambda pod: (*(-amount for amount in _size(pod)), pod.key))


def interchangeable(members: Sequence[Pod]) -> bool:
    """Whether it makes no difference who sits where, so that seating them one by one cannot go wrong."""
    shapes = {pod.shape for pod in members}
    return len(shapes) <= 1 and not any(shape.looks_at_itself for shape in shapes)


def _size(pod: Pod) -> tuple[int, int, int, int]:
    requests, ask = dict(pod.shape.requests), pod.shape.devices
    memory = 0 if ask is None else ask.memory
    return requests.get(GPU, 0), memory, requests.get(CPU, 0), requests.get("memory", 0)


class Attempts:
    """Tries for one gang at one moment. `home` are the nodes its bound members are on."""

    def __init__(self, seating: Seating, home: Iterable[str], *, now: float, closed: Codes | None = None) -> None:
        self._seating = seating
        self._placements = seating.placements
        self._home = tuple(dict.fromkeys(home))
        self._now = now
        self._closed = closed

    def close(self, members: Sequence[Pod]) -> Attempt:
        """In this order, on nodes the gang has already; a new one only where none of those will do."""
        seats: dict[ObjectKey, Seat] = {}
        refusal: Refusal | None = None
        nodes = dict.fromkeys(self._home)
        with self._placements.what_if():
            for place, pod in enumerate(members):
                node = self._node_for(pod, list(nodes), members[place:])
                seat = None if node is None else self._seating.seat_on(pod, node, now=self._now)
                if isinstance(seat, Seat):
                    hold(self._placements, pod, seat)
                    seats[pod.key] = seat
                    nodes[seat.node] = None
                elif refusal is None:
                    refusal = self._refused(pod)
        return Attempt(seats, refusal)

    def by_policy(self, members: Sequence[Pod]) -> Attempt:
        """In this order, each on the node that is best for it alone."""
        seats: dict[ObjectKey, Seat] = {}
        refusal: Refusal | None = None
        with self._placements.what_if():
            for pod in members:
                answer = self._seating.seat(pod, now=self._now, closed=self._closed)
                if isinstance(answer, Seat):
                    hold(self._placements, pod, answer)
                    seats[pod.key] = answer
                else:
                    refusal = refusal or answer
        return Attempt(seats, refusal)

    def search(self, members: Sequence[Pod]) -> Attempt:
        """All of these or none, by trying nodes in turn: finds what a fixed order misses, within `MOST_STEPS`."""
        found, _ = self._extended(members, MOST_STEPS)
        return Attempt(found or {})

    def _extended(self, members: Sequence[Pod], steps: int) -> tuple[dict[ObjectKey, Seat] | None, int]:
        """Seats for all of these, and how many steps are left."""
        if not members:
            return {}, steps
        pod = members[0]
        for row in self._by_room(self._fitting(pod), members):
            if steps <= 0:
                break
            steps -= 1
            seat = self._seating.seat_on(pod, self._placements.columns.names[row], now=self._now)
            if isinstance(seat, Reason):
                continue
            with self._placements.what_if():
                hold(self._placements, pod, seat)
                found, steps = self._extended(members[1:], steps)
            if found is not None:
                return {pod.key: seat} | found, steps
        return None, steps

    def _refused(self, pod: Pod) -> Refusal | None:
        answer = self._seating.seat(pod, now=self._now, closed=self._closed)
        return answer if isinstance(answer, Refusal) else None

    def _fitting(self, pod: Pod) -> Rows:
        """Rows that fit, in the order of their names."""
        by_name = self._placements.columns.by_name
        codes = self._seating.codes(pod, now=self._now)
        if self._closed is not None:
            codes = first_of(codes, self._closed)
        fits: Rows = by_name[codes[by_name] == FITS]
        return fits

    def _node_for(self, pod: Pod, nodes: list[str], waiting: Sequence[Pod]) -> str | None:
        fitting = self._fitting(pod)
        if not len(fitting):
            return None
        columns = self._placements.columns
        rows = [columns.rows[node] for node in nodes if node in columns.rows]
        here = set(fitting.tolist())
        row = next((row for row in rows if row in here), None)
        return columns.names[self._opened(fitting, rows, waiting) if row is None else row]

    def _opened(self, fitting: Rows, gang: list[int], waiting: Sequence[Pod]) -> int:
        """The node to take next, near the others: the tightest that holds all who wait, else the roomiest."""
        wanted, room = self._wanted(waiting), self._room(fitting, waiting)
        zones = self._placements.labels.column(ZONE).codes
        near = np.isin(zones[fitting], sorted({int(zones[row]) for row in gang}))
        if not near.any():
            near = _roomiest_zone(zones[fitting], room, wanted)
        fitting, room = fitting[near], room[near]
        holds = room >= wanted
        return int(fitting[holds][room[holds].argmin()] if holds.any() else fitting[room.argmax()])

    def _by_room(self, fitting: Rows, waiting: Sequence[Pod]) -> list[int]:
        """The tightest first."""
        rows: list[int] = fitting[np.argsort(self._room(fitting, waiting), kind="stable")].tolist()
        return rows

    def _room(self, rows: Rows, waiting: Sequence[Pod]) -> npt.NDArray[np.int64]:
        columns = self._placements.columns
        index = columns.resource(_measure(waiting))
        room: npt.NDArray[np.int64] = columns.allocatable[index, rows] - columns.used[index, rows]
        return room

    def _wanted(self, waiting: Sequence[Pod]) -> int:
        measure = _measure(waiting)
        return sum(dict(pod.shape.requests).get(measure, 0) for pod in waiting)


def _measure(members: Sequence[Pod]) -> str:
    """The resource a gang is measured by: GPUs if anybody needs one."""
    return GPU if any(name == GPU for pod in members for name, _ in pod.shape.requests) else CPU


def _roomiest_zone(zones: npt.NDArray[np.int32], room: npt.NDArray[np.int64], wanted: int) -> npt.NDArray[np.bool_]:
    """Rows of the tightest zone that holds all who wait, else of the roomiest; all rows if one of them holds all."""
    if (room >= wanted).any():
        return np.ones(len(zones), np.bool_)
    rooms = {zone: int(room[zones == zone].sum()) for zone in dict.fromkeys(zones.tolist())}
    chosen = min(rooms, key=lambda zone: (rooms[zone] < wanted, rooms[zone] if rooms[zone] >= wanted else -rooms[zone]))
    inside: npt.NDArray[np.bool_] = zones == chosen
    return inside
