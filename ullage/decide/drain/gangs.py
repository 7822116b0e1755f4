"""Gangs move whole or stay: who else has to leave when members of a gang do."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ullage.decide.assigning import Assigner
from ullage.decide.drain.rules import Blocked, Ruling, Rulings
from ullage.model.drain import WhyStays
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod


@dataclass(frozen=True, slots=True)
class GangStays:
    """A gang cannot be moved, because of this pod."""

    pod: ObjectKey
    detail: str


class Gangs:
    """Of the pods on one picture."""

    def __init__(self, assigner: Assigner, rulings: Rulings) -> None:
        self._assigner = assigner
        self._rulings = rulings

    def of(self, pod: Pod) -> ObjectKey | None:
        """The gang of a pod, if it is in one."""
        return self._assigner.gang_of(pod) if pod.claim or pod.claim_template else None

    def live(self, gang: ObjectKey) -> list[Pod]:
        """Members that hold room and are not being deleted, by name, where they are now."""
        held = self._assigner.placements.pods
        return [held[pod.key] for pod in self._assigner.members(gang) if pod.key in held and not pod.deleting]

    def companions(self, leaving: Sequence[Pod], gone: Collection[ObjectKey]) -> list[Pod] | GangStays:
        """Who has to leave, too, when these do. `gone` have left already.

        Members beyond what a gang needs go one by one; when fewer would be left, all the others follow.
        """
        found: dict[ObjectKey, Pod] = {}
        out = {pod.key for pod in leaving}
        gangs = dict.fromkeys(gang for gang in map(self.of, leaving) if gang is not None)
        for gang in gangs:
            size = self._assigner.gang_size(gang)
            left = [pod for pod in self.live(gang) if pod.key not in out and pod.key not in gone]
            if not size:
                first = next(pod.key for pod in leaving if self.of(pod) == gang)
                return GangStays(first, f"nobody knows how many members gang {gang} needs")
            if len(left) >= size:
                continue
            for pod in left:
                problem = self._problem(gang, pod)
                if problem is not None:
                    return problem
                found[pod.key] = pod
        return [found[key] for key in sorted(found)]

    def _problem(self, gang: ObjectKey, pod: Pod) -> GangStays | None:
        answer = self._rulings.of(pod)
        if answer is Ruling.MOVES:
            return None
        why = answer.why if isinstance(answer, Blocked) else WhyStays.WAITS_FOR_COMPLETION
        return GangStays(pod.key, f"gang {gang} moves whole, and a member on {pod.node} does not: {why}")
