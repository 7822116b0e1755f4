"""Victims of a gang that lose fewer GPUs than those found member by member.

A victim that is dear for one member may be cheap for two, and free GPUs beside it count. So sets of victims are tried
by the GPUs they lose, the fewest first, as far as their number allows: on a small cluster those of all nodes, by
their highest priority first; on a large one those of the nodes that promise most. Bounded: with many nodes or pods the
fewest are not proven.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from ullage.decide.gang.placement import GangRequest
from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.placement.filters.codes import FITS
from ullage.decide.preemption.assumptions import Assumptions
from ullage.decide.preemption.candidates import candidates
from ullage.decide.preemption.least_loss import choices, sets_by_loss
from ullage.decide.preemption.protection import EvictionUnit, PreemptionContext, VictimProtection, gpus_lost
from ullage.model.device import MILLI_GPU
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.stepper import StepMeter, Stepper
from ullage.model.units import Seconds

MOST_NODES = 8
"""Nodes of a small cluster; nodes of a large one whose pods are victims of the sets, beside those found by member."""
MOST_SETS = 4096
"""Sets of one highest priority whose number of GPUs is looked at: all sets of twelve pods."""
MOST_TRIES = 48
"""Sets for which the members are placed on a large cluster."""
MOST_PLACED = 3072
"""Members placed for all sets together on a small cluster."""
ANY_LOSS = 1 << 62
SET_COST = 0.000_01

Places = list[tuple[Pod, str]]
Tried = Callable[[Sequence[Pod]], Stepper[Places | None]]
"""Places of the members once these pods are gone; None if too few members fit."""


@dataclass(frozen=True, slots=True)
class GangVictims:
    """Pods to evict, and the places of the members without them."""

    pods: tuple[Pod, ...]
    places: Places


def requested_gpus(pod: Pod) -> int:
    """Thousandths of whole GPUs a member requests."""
    return next((amount for name, amount in pod.shape.requests if name == GPU), 0)


def with_less_lost(
    given: Assumptions, gang: GangRequest, around: PreemptionContext, found: Sequence[Pod], tried: Tried
) -> Stepper[GangVictims | None]:
    """Victims of a lower highest priority than `found`, or of the same with fewer GPUs; None if none were found."""
    meter = StepMeter()
    lowest = min(pod.priority for pod in gang.pending)
    protection = VictimProtection(given.engine.snapshot, around, lowest)
    members = sorted(gang.pending, key=lambda pod: (requested_gpus(pod), pod.key))
    small = is_small(given.engine)
    nodes = _open_nodes(given.engine, protection) if small else {pod.node: None for pod in found}
    for member in () if small else (members[-1], members[0])[: 1 if members[-1].shape is members[0].shape else 2]:
        promising = yield from candidates(given, protection, member, meter)
        nodes |= {one.node: None for one in promising[:MOST_NODES]}
    highest, lost = max(pod.priority for pod in found), sum(map(gpus_lost, found))
    room = _Room(given.engine, [requested_gpus(pod) for pod in members[: gang.needed]])
    units = [unit for unit in _units(protection, nodes) if unit.gpus]
    tries = max(MOST_TRIES, MOST_PLACED // gang.needed) if small else MOST_TRIES
    for level in _levels(units, highest) if small else (highest,):
        ways = [choices(unit, unit.pods[0].node, level) for unit in units]
        if level < highest and not room.is_enough([pod for way in ways for unit in chain(*way) for pod in unit.pods]):
            continue
        for _, chosen in islice(sets_by_loss(ways, lost if level == highest else ANY_LOSS), MOST_SETS):
            pods = tuple(pod for unit in chosen for pod in unit.pods)
            if room.is_enough(pods) and protection.may_go(pods):
                tries -= 1
                places = yield from tried(pods)
                if places is not None:
                    return GangVictims(pods, places)
            if meter.spend(Seconds(SET_COST)):
                meter.has_time = yield meter.take()
            if not meter.has_time or tries <= 0:
                return None
    return None


def _open_nodes(engine: PlacementEngine, protection: VictimProtection) -> dict[str, None]:
    """Nodes where pods may be evicted for the gang, by name."""
    rows, closed = engine.snapshot.columns.rows, protection.closed
    return {node: None for node in sorted(rows) if closed is None or closed[rows[node]] == FITS}


def is_small(engine: PlacementEngine) -> bool:
    """True if the cluster has so few nodes that sets of victims on all of them are tried."""
    return len(engine.snapshot.columns.rows) <= MOST_NODES


def _levels(units: Sequence[EvictionUnit], highest: int) -> list[int]:
    """Priorities of victims up to the highest found, the lowest first."""
    return sorted({highest, *(pod.priority for unit in units for pod in unit.pods if pod.priority < highest)})


def _units(protection: VictimProtection, nodes: Iterable[str]) -> list[EvictionUnit]:
    """Units on these nodes, each once, the least important first."""
    there = (unit for node in nodes for unit in protection.units_on(node, breaking=True))
    units = {tuple(pod.key for pod in unit.pods): unit for unit in there}
    return sorted(units.values(), key=lambda unit: unit.importance, reverse=True)


class _Room:
    """Bound of the room that free GPUs make: their number, and that of members if all were as small as the smallest."""

    def __init__(self, engine: PlacementEngine, requested: Sequence[int]) -> None:
        columns = engine.snapshot.columns
        self._rows, self._size, self._needed = columns.rows, max(1, min(requested)), len(requested)
        index = columns.resource(GPU)
        whole = np.where(columns.gpus.free == MILLI_GPU, MILLI_GPU, 0).sum(axis=1)
        self._free = np.maximum(whole, columns.free[index])
        self._all = int((self._free // self._size).sum())
        self._missing = sum(requested) - int(self._free.sum())

    def is_enough(self, gone: Sequence[Pod]) -> bool:
        """False if the needed members cannot fit once these pods are gone."""
        freed: dict[int, int] = {}
        for pod in gone:
            row = self._rows.get(pod.node)
            if row is not None:
                freed[row] = freed.get(row, 0) + max(gpus_lost(pod), len(pod.gpu_ids) * MILLI_GPU)
        more = sum(
            (int(self._free[row]) + amount) // self._size - int(self._free[row]) // self._size
            for row, amount in freed.items()
        )
        return self._all + more >= self._needed and sum(freed.values()) >= self._missing
