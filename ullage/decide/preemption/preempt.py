"""Preemption for one pod: a node and the victims to evict there, or the reason for none.

Nodes are ordered as by kube-scheduler, with lost GPUs added: lowest highest priority among the victims, fewest GPUs
lost, lowest sum of priorities, fewest victims, youngest victims, name. No VictimSet violates a disruption budget, so
violations do not count. kube-scheduler begins at a random node and compares the first nodes it finds. Here the node
with the best bound comes first, and the search ends when no bound is better than what was found.

The search is a stepper: at 5,000 nodes it takes hundreds of milliseconds, and other pods are decided meanwhile.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.placement.filters.codes import FITS
from ullage.decide.preemption.assumptions import Assumptions
from ullage.decide.preemption.candidates import CURABLE, candidates, could_get_devices
from ullage.decide.preemption.protection import PreemptionContext, VictimProtection
from ullage.decide.preemption.victims import VictimSelector, VictimSet
from ullage.model.intents import Preempt, Victim
from ullage.model.pod import Pod
from ullage.model.stepper import StepMeter, Stepper, finish
from ullage.model.units import Instant, Seconds

LEAST_CLEARINGS = 100
CLEARINGS_PER_NODES = 10
"""VictimSets compared at most: `LEAST_CLEARINGS`, or one per this many nodes of the cluster if that is more."""
CANDIDATE_COST = Seconds(0.000_05)
"""Modelled CPU seconds of trying one node, beside its victims."""


class NoPreemptionReason(StrEnum):
    """Reason for evicting no pod. Closed list."""

    PREEMPTS_NOBODY = "PreemptsNobody"
    """The pod's preemptionPolicy is Never."""
    VICTIMS_LEAVING = "VictimsLeaving"
    """Pods are leaving the node nominated for this pod: it has to wait."""
    NOT_FOR_LACK_OF_ROOM = "NotForLackOfRoom"
    """No node refuses the pod for a reason that fewer pods could cure."""
    NOT_ENOUGH_LOWER = "NotEnoughLower"
    """Evicting all pods of lower priority would not make room on any node."""
    PROTECTED = "Protected"
    """Evicting pods of lower priority would make room, but disruption budgets or gangs protect them."""
    OUT_OF_TIME = "OutOfTime"
    """The search took too long; the pod is tried again."""
    CHANGED = "Changed"
    """The cluster changed during the search, and its answer is no longer right; the pod is tried again."""
    GANG_INCOMPLETE = "GangIncomplete"
    """Gang members are missing: no pod is evicted before enough members exist."""


@dataclass(frozen=True, slots=True)
class NoPreemption:
    """No pod is evicted."""

    reason: NoPreemptionReason
    detail: str = ""


def preempt(engine: PlacementEngine, pod: Pod, around: PreemptionContext, *, now: Instant) -> Preempt | NoPreemption:
    """Decide on preemption for a pod that fits no node, at once. Leaves the snapshot as it was."""
    return finish(search_preemption(Assumptions(engine, now=now), pod, around))


def search_preemption(given: Assumptions, pod: Pod, around: PreemptionContext) -> Stepper[Preempt | NoPreemption]:
    """Decide on preemption for a pod that fits no node, in steps. Leaves the snapshot as it was after each.

    The snapshot may change between steps: check the answer by `recheck.is_still_right` before it is used.
    """
    if not pod.preempts:
        return NoPreemption(NoPreemptionReason.PREEMPTS_NOBODY)
    meter, given = StepMeter(), given.copy()
    protection = VictimProtection(given.engine.snapshot, around, pod.priority)
    yield from given.add_nominated(pod, around.nominated, meter)
    if meter.spend(Seconds(2 * given.cost)):  # of the trial in there, and of the next
        meter.has_time = yield meter.take()
        if not meter.has_time:
            return NoPreemption(NoPreemptionReason.OUT_OF_TIME)
    with given.trial():
        if _is_waiting(given.engine, protection, pod, given.now):
            return NoPreemption(NoPreemptionReason.VICTIMS_LEAVING, f"pods are leaving {pod.nominated}")
    found = yield from _best(given, protection, pod, meter)
    return found if isinstance(found, NoPreemption) else _action(pod, found)


def _is_waiting(engine: PlacementEngine, protection: VictimProtection, pod: Pod, now: Instant) -> bool:
    """True if a pod is leaving the node nominated for this pod, and that node fits or may become fit."""
    row = engine.snapshot.columns.rows.get(pod.nominated)
    if row is None:
        return False
    code = engine.codes(pod, now=now).item(row)
    leaving = any(protection.leaves(other) for other in engine.snapshot.pods_on(pod.nominated).values())
    return leaving and (code == FITS or code in CURABLE)


def _best(
    given: Assumptions, protection: VictimProtection, pod: Pod, meter: StepMeter
) -> Stepper[VictimSet | NoPreemption]:
    promising = yield from candidates(given, protection, pod, meter)
    if not promising:
        return _no_candidate(given, pod)
    selector = VictimSelector(given, protection, pod, meter)
    enough = max(LEAST_CLEARINGS, len(given.engine.snapshot.columns.rows) // CLEARINGS_PER_NODES)
    best: VictimSet | None = None
    shielded = ""
    for candidate in promising:
        if not enough or (best is not None and best.rank <= candidate.bound) or not meter.has_time:
            break
        if meter.spend(Seconds(CANDIDATE_COST + given.cost)):
            meter.has_time = yield meter.take()
            if not meter.has_time:
                break
        protection.refresh(candidate.node)
        if not _could_get_devices(given, protection, pod, candidate.node):
            continue
        best_so_far = None if best is None else best.rank
        found = yield from selector.select(candidate.node, candidate.bound[1], best_so_far)
        if found is None:
            shielded = shielded or (candidate.node if selector.protected(candidate.node) else "")
        else:
            enough -= 1
            best = found if best is None else min(best, found, key=lambda one: one.rank)
    return _nothing(meter, shielded) if best is None else best


def _could_get_devices(given: Assumptions, protection: VictimProtection, pod: Pod, node: str) -> bool:
    """True if the node still exists, and its GPUs would suit without its leaving and evictable pods."""
    if node not in given.engine.snapshot.columns.rows:
        return False
    with given.trial():
        return could_get_devices(given.engine, protection, pod, node)


def _nothing(meter: StepMeter, shielded: str) -> NoPreemption:
    if not meter.has_time:
        return NoPreemption(NoPreemptionReason.OUT_OF_TIME)
    if shielded:
        return NoPreemption(
            NoPreemptionReason.PROTECTED, f"budgets or gangs protect those in the way, as on {shielded}"
        )
    return NoPreemption(NoPreemptionReason.NOT_ENOUGH_LOWER)


def _no_candidate(given: Assumptions, pod: Pod) -> NoPreemption:
    with given.trial():
        curable = np.isin(given.engine.codes(pod, now=given.now), CURABLE).any()
    return NoPreemption(NoPreemptionReason.NOT_ENOUGH_LOWER if curable else NoPreemptionReason.NOT_FOR_LACK_OF_ROOM)


def _action(pod: Pod, clearing: VictimSet) -> Preempt:
    victims = tuple(Victim(pod=one.key, uid=one.uid, node=one.node, priority=one.priority) for one in clearing.victims)
    if victims:
        highest = max(victim.priority for victim in victims)
        why = f"priority {pod.priority} needs {clearing.node}: evicting {len(victims)} of priority {highest} or lower"
    else:
        why = f"enough is leaving {clearing.node} already"
    return Preempt(pod=pod.key, uid=pod.uid, node=clearing.node, victims=victims, why=why)
