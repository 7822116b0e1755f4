"""Gangs in drain plans: members that must move along, because a gang moves whole or stays."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ullage.decide.draining.rules import Drainability, DrainabilityCache, DrainBlocked
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.draining import UnremovableReason
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod


@dataclass(frozen=True, slots=True)
class GangUnmovable:
    """A gang that cannot be moved, and the pod that prevents it."""

    pod: ObjectKey
    detail: str


class GangMoves:
    """Gang members of one snapshot, and the moves they force."""

    def __init__(self, assigner: PodAssigner, rulings: DrainabilityCache) -> None:
        self._assigner = assigner
        self._rulings = rulings

    def of(self, pod: Pod) -> ObjectKey | None:
        """Gang of a pod, if it is in one."""
        return self._assigner.gang_of(pod) if pod.claim or pod.claim_template else None

    def live(self, gang: ObjectKey) -> list[Pod]:
        """Members that hold room and are not being deleted, by name, where they are now."""
        held = self._assigner.placements.pods
        return [held[pod.key] for pod in self._assigner.members(gang) if pod.key in held and not pod.deleting]

    def companions(self, leaving: Sequence[Pod], gone: Collection[ObjectKey]) -> list[Pod] | GangUnmovable:
        """Gang members that must leave together with the `leaving` pods. `gone` have left already.

        Members beyond the gang's size move one by one. If fewer than its size would be left, all others follow.
        """
        found: dict[ObjectKey, Pod] = {}
        out = {pod.key for pod in leaving}
        gangs = dict.fromkeys(gang for gang in map(self.of, leaving) if gang is not None)
        for gang in gangs:
            size = self._assigner.gang_size(gang)
            left = [pod for pod in self.live(gang) if pod.key not in out and pod.key not in gone]
            if not size:
                first = next(pod.key for pod in leaving if self.of(pod) == gang)
                return GangUnmovable(first, f"nobody knows how many members gang {gang} needs")
            if len(left) >= size:
                continue
            for pod in left:
                problem = self._problem(gang, pod)
                if problem is not None:
                    return problem
                found[pod.key] = pod
        return [found[key] for key in sorted(found)]

    def _problem(self, gang: ObjectKey, pod: Pod) -> GangUnmovable | None:
        answer = self._rulings.of(pod)
        if answer is Drainability.EVICT:
            return None
        why = answer.reason if isinstance(answer, DrainBlocked) else UnremovableReason.WAITS_FOR_COMPLETION
        return GangUnmovable(pod.key, f"gang {gang} moves whole, and a member on {pod.node} does not: {why}")
