"""Preemption for one pod: a node and the victims to evict there, or the reason for none.

Nodes are ordered as by kube-scheduler, with lost GPUs added: lowest highest priority among the victims, fewest GPUs
lost, lowest sum of priorities, fewest victims, youngest victims, name. No VictimSet violates a disruption budget, so
violations do not count. kube-scheduler begins at a random node and compares the first nodes it finds. Here the node
with the best bound comes first, and the search ends when no bound is better than what was found.
"""

from dataclasses import dataclass
from enum import StrEnum

from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.placement.filters.codes import FITS
from ullage.decide.preemption.candidates import CURABLE, candidates, could_get_devices
from ullage.decide.preemption.clearing import VictimSelector, VictimSet
from ullage.decide.preemption.nominated import place_nominated
from ullage.decide.preemption.protection import PreemptionContext, VictimProtection
from ullage.model.action import Preempt, Victim
from ullage.model.pod import Pod

LEAST_CLEARINGS = 100
CLEARINGS_PER_NODES = 10
"""VictimSets compared at most: `LEAST_CLEARINGS`, or one per this many nodes of the cluster if that is more."""


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
    GANG_INCOMPLETE = "GangIncomplete"
    """Gang members are missing: no pod is evicted before enough members exist."""


@dataclass(frozen=True, slots=True)
class NoPreemption:
    """No pod is evicted."""

    reason: NoPreemptionReason
    detail: str = ""


def preempt(seating: PlacementEngine, pod: Pod, around: PreemptionContext, *, now: float) -> Preempt | NoPreemption:
    """Decide on preemption for a pod that fits no node. Leaves the snapshot as it was."""
    if not pod.preempts:
        return NoPreemption(NoPreemptionReason.PREEMPTS_NOBODY)
    protection = VictimProtection(seating.placements, around, pod.priority)
    with seating.placements.what_if():
        place_nominated(seating, pod, around.nominated, now=now)
        if _is_waiting(seating, protection, pod, now):
            return NoPreemption(NoPreemptionReason.VICTIMS_LEAVING, f"pods are leaving {pod.nominated}")
        found = _best(seating, protection, pod, now)
    return found if isinstance(found, NoPreemption) else _action(pod, found)


def _is_waiting(seating: PlacementEngine, protection: VictimProtection, pod: Pod, now: float) -> bool:
    """True if a pod is leaving the node nominated for this pod, and that node fits or may become fit."""
    row = seating.placements.columns.rows.get(pod.nominated)
    if row is None:
        return False
    code = seating.codes(pod, now=now).item(row)
    leaving = any(protection.leaves(other) for other in seating.placements.pods_on(pod.nominated).values())
    return leaving and (code == FITS or code in CURABLE)


def _best(seating: PlacementEngine, protection: VictimProtection, pod: Pod, now: float) -> VictimSet | NoPreemption:
    promising = candidates(seating, protection, pod, now=now)
    if not promising:
        return _nobody(seating, pod, now)
    clearer = VictimSelector(seating, protection, pod, now=now)
    enough = max(LEAST_CLEARINGS, len(seating.placements.columns.rows) // CLEARINGS_PER_NODES)
    best: VictimSet | None = None
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
        return NoPreemption(
            NoPreemptionReason.PROTECTED, f"budgets or gangs protect those in the way, as on {shielded}"
        )
    return NoPreemption(NoPreemptionReason.NOT_ENOUGH_LOWER)


def _nobody(seating: PlacementEngine, pod: Pod, now: float) -> NoPreemption:
    codes = seating.codes(pod, now=now).tolist()
    curable = any(code in CURABLE for code in codes)
    return NoPreemption(NoPreemptionReason.NOT_ENOUGH_LOWER if curable else NoPreemptionReason.NOT_FOR_LACK_OF_ROOM)


def _action(pod: Pod, clearing: VictimSet) -> Preempt:
    victims = tuple(Victim(pod=one.key, uid=one.uid, node=one.node, priority=one.priority) for one in clearing.victims)
    if victims:
        highest = max(victim.priority for victim in victims)
        why = f"priority {pod.priority} needs {clearing.node}: evicting {len(victims)} of priority {highest} or lower"
    else:
        why = f"enough is leaving {clearing.node} already"
    return Preempt(pod=pod.key, uid=pod.uid, node=clearing.node, victims=victims, why=why)
