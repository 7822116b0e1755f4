"""Victims of a gang that lose fewer GPUs than those found member by member.

A victim that is dear for one member may be cheap for two. So sets of victims on the nodes that promise most are tried
by the GPUs they lose, the fewest first, as far as their number allows. Bounded: with many nodes the fewest are not
proven.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ullage.decide.gang.placement import GangRequest
from ullage.decide.placement.engine import PlacementEngine
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
"""Nodes whose pods are victims of the sets, beside those found member by member."""
MOST_SETS = 4096
"""Sets whose number of GPUs is looked at."""
MOST_TRIES = 48
"""Sets for which the members are placed."""
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
    """Victims of no higher priority that lose fewer GPUs than `found`; None if no such set was found."""
    meter = StepMeter()
    lowest = min(pod.priority for pod in gang.pending)
    protection = VictimProtection(given.engine.snapshot, around, lowest)
    members = sorted(gang.pending, key=lambda pod: (requested_gpus(pod), pod.key))
    nodes = {pod.node: None for pod in found}
    for member in (members[-1], members[0])[: 1 if members[-1].shape is members[0].shape else 2]:
        promising = yield from candidates(given, protection, member, meter)
        nodes |= {one.node: None for one in promising[:MOST_NODES]}
    highest, lost = max(pod.priority for pod in found), sum(map(gpus_lost, found))
    room = _Room(given.engine, max(1, requested_gpus(members[0])), gang.needed)
    ways = [choices(unit, unit.pods[0].node, highest) for unit in _units(protection, nodes) if unit.gpus]
    tries = 0
    for _, units in islice(sets_by_loss(ways, lost), MOST_SETS):
        pods = tuple(pod for unit in units for pod in unit.pods)
        if room.is_enough(pods) and protection.may_go(pods):
            tries += 1
            places = yield from tried(pods)
            if places is not None:
                return GangVictims(pods, places)
        if meter.spend(Seconds(SET_COST)):
            meter.has_time = yield meter.take()
        if not meter.has_time or tries >= MOST_TRIES:
            break
    return None


def _units(protection: VictimProtection, nodes: Iterable[str]) -> list[EvictionUnit]:
    """Units on these nodes, each once, the least important first."""
    there = (unit for node in nodes for unit in protection.units_on(node, breaking=True))
    units = {tuple(pod.key for pod in unit.pods): unit for unit in there}
    return sorted(units.values(), key=lambda unit: unit.importance, reverse=True)


class _Room:
    """Number of members that free GPUs could hold at most, if all were as small as the smallest."""

    def __init__(self, engine: PlacementEngine, smallest: int, needed: int) -> None:
        columns = engine.snapshot.columns
        self._rows, self._size, self._needed = columns.rows, smallest, needed
        self._free = np.where(columns.gpus.free == MILLI_GPU, MILLI_GPU, 0).sum(axis=1)
        self._all = int((self._free // smallest).sum())

    def is_enough(self, gone: Sequence[Pod]) -> bool:
        freed: dict[int, int] = {}
        for pod in gone:
            row = self._rows.get(pod.node)
            if row is not None:
                freed[row] = freed.get(row, 0) + max(gpus_lost(pod), len(pod.gpu_ids) * MILLI_GPU)
        more = sum(
            (int(self._free[row]) + amount) // self._size - int(self._free[row]) // self._size
            for row, amount in freed.items()
        )
        return self._all + more >= self._needed
