"""Candidate nodes for preemption, in the order to try them: from sums alone, before any what-if.

Each candidate has a bound: no VictimSet of that node can rank better. A caller that goes through candidates in this
order may stop as soon as the best VictimSet found is as good as the bound of the next candidate.
"""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.placement.filters.codes import CODE, FITS, REASONS
from ullage.decide.placement.reasons import CURES
from ullage.decide.preemption.assumptions import Assumptions
from ullage.decide.preemption.protection import VictimProtection, gpus_lost
from ullage.decide.preemption.victims import NO_VICTIM, Rank, RankBound, priced, would_suit
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.shape import Shape
from ullage.model.stepper import StepMeter, Stepper
from ullage.model.units import Instant, Seconds
from ullage.model.verdict import Reason

PLAIN = tuple(
    CODE[reason]
    for reason in (
        Reason.INSUFFICIENT_RESOURCES,
        Reason.TOO_FEW_GPUS,
        Reason.PREFERRED_GPUS_TAKEN,
        Reason.NO_ROOM_FOR_SHARE,
        Reason.NO_MIG_INSTANCE,
        Reason.NO_ISLAND_LARGE_ENOUGH,
        Reason.BANDWIDTH_TOO_LOW,
    )
)
"""Codes of refusals that only evicting holders of the missing amounts or GPUs can cure."""

CURABLE = tuple(code for code, reason in enumerate(REASONS) if reason in CURES and CURES[reason].fewer_pods)
"""Codes of refusals that fewer pods on the node could cure."""

NODE_COST, POD_COST = 0.000_01, 0.000_001
"""Modelled CPU seconds of the bound of one node, and of each of its pods that may go."""


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """A node on which evictions may make room."""

    bound: Rank
    """No VictimSet of this node ranks before it."""
    node: str


def candidates(
    given: Assumptions, protection: VictimProtection, pod: Pod, meter: StepMeter
) -> Stepper[list[PreemptionCandidate]]:
    """Nodes where evicting all pods of lower priority would free enough of each resource, best bound first."""
    bounds = _Bounds(pod)
    found: list[PreemptionCandidate] = []
    meter.spend(Seconds(given.cost))
    for node, short, is_plain in _curable_nodes(given, protection, pod):
        leaving, evictable = protection.who_goes(node)
        if leaving or evictable:
            bound = bounds.of_node(short, leaving, evictable, plain=is_plain)
            if bound is not None:
                found.append(PreemptionCandidate((*bound, node), node))
        if meter.spend(Seconds(NODE_COST + POD_COST * (len(leaving) + len(evictable)))):
            meter.has_time = yield meter.take()
        if not meter.has_time:
            break
    return sorted(found, key=lambda candidate: candidate.bound)


def _curable_nodes(given: Assumptions, protection: VictimProtection, pod: Pod) -> list[tuple[str, list[int], bool]]:
    """Nodes that fewer pods might open, what each lacks of the requested amounts, and whether only amounts matter."""
    engine = given.engine
    columns = engine.snapshot.columns
    with given.trial():
        codes = engine.codes(pod, now=given.now)
        curable = np.isin(codes, CURABLE)
        rows = np.flatnonzero(curable if protection.closed is None else curable & (protection.closed == FITS))
        needs = columns.indexed(pod.shape.requests)
        missing = np.array([amount - columns.free[index, rows] for index, amount in needs])
        plain = np.isin(codes[rows], PLAIN) & _looks_at_nobody(engine, pod)
    names = [columns.names[row] for row in rows.tolist()]
    shortages: list[list[int]] = missing.T.tolist() if needs else [[]] * len(names)
    return list(zip(names, shortages, plain.tolist(), strict=True))


def _looks_at_nobody(engine: PlacementEngine, pod: Pod) -> bool:
    """True if only amounts and GPUs can keep the pod off a node: no pod rules, host ports or volume claims."""
    shape = pod.shape
    looks = shape.looks_at_itself or shape.host_ports or shape.claims
    return not looks and not engine.snapshot.placed.refusals.about(pod)


def could_get_devices(engine: PlacementEngine, protection: VictimProtection, pod: Pod, node: str) -> bool:
    """True if the node's GPUs would suit once all leaving and evictable pods are gone. Always True off leased nodes."""
    leaving, evictable = protection.who_goes(node)
    return would_suit(engine, pod, node, (*leaving, *evictable))


class _Bounds:
    """Bounds of nodes, from the amounts of the requested resources and from the holders of GPUs.

    Rules that sums do not show (ports, islands) may need more victims, never fewer or lower ones.
    """

    def __init__(self, pod: Pod) -> None:
        self._names = [name for name, _ in pod.shape.requests]
        self._of_shape: dict[Shape, tuple[int, ...]] = {}
        self._gpus = self._names.index(GPU) if GPU in self._names else None

    def of_node(self, short: list[int], leaving: list[Pod], evictable: list[Pod], *, plain: bool) -> RankBound | None:
        """Bound of a node that lacks `short` of each resource; None if all pods together do not free enough.

        If only amounts and GPUs are in the way (`plain`), only pods that hold some of them can be victims.
        """
        for pod in leaving:
            short = [missing - freed for missing, freed in zip(short, self._freed(pod), strict=True)]
        lacking = [place for place, missing in enumerate(short) if missing > 0]
        if leaving and not lacking:
            return NO_VICTIM
        of_shape = self._of_shape
        freed = [of_shape.get(pod.shape) or self._freed(pod) for pod in evictable]
        lost = 0 if self._gpus is None else max(short[self._gpus], 0)
        if plain:
            evictable, freed, least = self._helping(lacking, evictable, freed)
            lost = lost if lacking else least
        if not evictable:
            return None
        last = fewest = 0
        for place in lacking:
            amounts = [amount[place] for amount in freed]
            if sum(amounts) < short[place]:
                return None
            last = max(last, _reaching(short[place], amounts))
            fewest = max(fewest, _reaching(short[place], sorted(amounts, reverse=True)))
        floor = evictable[last].priority
        total = priced(floor) + fewest * priced(evictable[0].priority)
        return floor, lost, total, fewest + 1, -_latest(evictable, floor, fewest)

    def _helping(
        self, lacking: list[int], evictable: list[Pod], freed: list[tuple[int, ...]]
    ) -> tuple[list[Pod], list[tuple[int, ...]], int]:
        """Pods that hold some of what is missing, what each frees, and the fewest GPUs that one of them holds."""
        pairs = zip(evictable, freed, strict=True)
        if not lacking:  # the GPUs themselves are in the way: their holders, or their ids
            holders = [(pod, frees, gpus) for pod, frees in pairs if (gpus := gpus_lost(pod))]
        elif len(lacking) == 1:
            place = lacking[0]
            holders = [(pod, frees, 0) for pod, frees in pairs if pod.gpu_ids or frees[place]]
        else:
            holders = [(pod, frees, 0) for pod, frees in pairs if pod.gpu_ids or any(map(frees.__getitem__, lacking))]
        least = min((gpus for _, _, gpus in holders), default=0)
        return [pod for pod, _, _ in holders], [frees for _, frees, _ in holders], least

    def _freed(self, pod: Pod) -> tuple[int, ...]:
        """Amounts of the requested resources that a pod frees."""
        known = self._of_shape.get(pod.shape)
        if known is None:
            requests = dict(pod.shape.requests)
            known = self._of_shape[pod.shape] = tuple(requests.get(name, 0) for name in self._names)
        return known


def _latest(evictable: list[Pod], floor: int, fewest: int) -> Instant:
    """Latest possible creation time of the oldest among the most important victims."""
    came = sorted((pod.created for pod in evictable if pod.priority == floor), reverse=True)
    # Where all are of one priority, all victims count: as many as are needed came no later than the last of so many.
    return came[fewest] if len(came) == len(evictable) else came[0]


def _reaching(missing: int, amounts: list[int]) -> int:
    """Index at which the running sum of amounts reaches what is missing."""
    return next(place for place, total in enumerate(accumulate(amounts)) if total >= missing)
