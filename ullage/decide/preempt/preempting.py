"""A pod without a seat, one answer: a node and the pods that must leave it, or why there is no such node.

The order of nodes is kube-scheduler's: lowest highest priority among the victims, then lowest sum of priorities, fewest
victims, those who came last, name. No node violates a budget, so that does not count. Where kube-scheduler begins at a
random node and compares the first it finds, the most promising are looked at first, and no further than they promise.
"""

from dataclasses import dataclass
from enum import StrEnum

from ullage.decide.fit.codes import FITS
from ullage.decide.preempt.candidates import CURABLE, candidates, could_get_devices
from ullage.decide.preempt.clearing import Clearer, Clearing
from ullage.decide.preempt.nominated import place_nominated
from ullage.decide.preempt.protection import Protection, Surroundings
from ullage.decide.seat.deciding import Seating
from ullage.model.action import Preempt, Victim
from ullage.model.pod import Pod

LEAST_CLEARINGS = 100
CLEARINGS_PER_NODES = 10
"""So many nodes that could be cleared are compared, or one for so many nodes of the cluster if that is more."""


class NoVictims(StrEnum):
    """Why nobody is evicted for a pod. The closed list."""

    PREEMPTS_NOBODY = "PreemptsNobody"
    """Its preemptionPolicy is Never."""
    VICTIMS_LEAVING = "VictimsLeaving"
    """Others are leaving the node nominated for it: it has to wait."""
    NOT_FOR_LACK_OF_ROOM = "NotForLackOfRoom"
    """No node refuses it for something that fewer pods could change."""
    NOT_ENOUGH_LOWER = "NotEnoughLower"
    """Not enough pods of lower priority are in its way."""
    PROTECTED = "Protected"
    """Enough are, but budgets or gangs protect them."""
    GANG_INCOMPLETE = "GangIncomplete"
    """Members are missing: nobody is evicted before all are there."""


@dataclass(frozen=True, slots=True)
class NoPreemption:
    """Nobody is evicted."""

    reason: NoVictims
    detail: str = ""


def preempt(seating: Seating, pod: Pod, around: Surroundings, *, now: float) -> Preempt | NoPreemption:
    """What is to be done for a pod that was refused. Leaves the picture as it is."""
    if not pod.preempts:
        return NoPreemption(NoVictims.PREEMPTS_NOBODY)
    protection = Protection(seating.placements, around, pod.priority)
    with seating.placements.what_if():
        place_nominated(seating, pod, around.nominated, now=now)
        if _is_waiting(seating, protection, pod, now):
            return NoPreemption(NoVictims.VICTIMS_LEAVING, f"pods are leaving {pod.nominated}")
        found = _best(seating, protection, pod, now)
    return found if isinstance(found, NoPreemption) else _action(pod, found)


def _is_waiting(seating: Seating, protection: Protection, pod: Pod, now: float) -> bool:
    """Somebody is leaving the node nominated for it, and that node may still become fit."""
    row = seating.placements.columns.rows.get(pod.nominated)
    if row is None:
        return False
    code = seating.codes(pod, now=now).item(row)
    leaving = any(protection.leaves(other) for other in seating.placements.pods_on(pod.nominated).values())
    return leaving and (code == FITS or code in CURABLE)


def _best(seating: Seating, protection: Protection, pod: Pod, now: float) -> Clearing | NoPreemption:
    promising = candidates(seating, protection, pod, now=now)
    if not promising:
        return _nobody(seating, pod, now)
    clearer = Clearer(seating, protection, pod, now=now)
    enough = max(LEAST_CLEARINGS, len(seating.placements.columns.rows) // CLEARINGS_PER_NODES)
    best: Clearing | None = None
    shielded = ""
    for candidate in promising:
        if not enough or (best is not None and best.rank <= candidate.promise):
            break
        if not could_get_devices(seating, protection, pod, candidate.node):
            continue
        clearing = clearer.clear(candidate.node)
        if clearing is None:
            shielded = shielded or (candidate.node if clearer.protected(candidate.node) else "")
            continue
        enough -= 1
        best = clearing if best is None else min(best, clearing, key=lambda one: one.rank)
    if best is not None:
        return best
    if shielded:
        return NoPreemption(NoVictims.PROTECTED, f"budgets or gangs protect those in the way, as on {shielded}")
    return NoPreemption(NoVictims.NOT_ENOUGH_LOWER)


def _nobody(seating: Seating, pod: Pod, now: float) -> NoPreemption:
    codes = seating.codes(pod, now=now).tolist()
    curable = any(code in CURABLE for code in codes)
    return NoPreemption(NoVictims.NOT_ENOUGH_LOWER if curable else NoVictims.NOT_FOR_LACK_OF_ROOM)


def _action(pod: Pod, clearing: Clearing) -> Preempt:
    victims = tuple(Victim(pod=one.key, uid=one.uid, node=one.node, priority=one.priority) for one in clearing.victims)
    if victims:
        highest = max(victim.priority for victim in victims)
        why = f"priority {pod.priority} needs {clearing.node}: evicting {len(victims)} of priority {highest} or lower"
    else:
        why = f"enough is leaving {clearing.node} already"
    return Preempt(pod=pod.key, uid=pod.uid, node=clearing.node, victims=victims, why=why)
