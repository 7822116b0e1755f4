"""Pods by what they belong to, oldest first, kept sorted as they come and go.

A thousand pods may name one claim. The oldest is asked for with each of them, and must not be searched for.
"""

from bisect import bisect_left, insort

from ullage.model.fact_event import ObjectKey
from ullage.model.pod import AgeOrder, Pod, age_order
from ullage.state.forking import Forkable
from ullage.state.shared_rows import SharedRows


class PodsByAge(Forkable):
    """Keys of pods by what they belong to. A pod must be removed with the age it was added with."""

    def __init__(self) -> None:
        self._sorted: SharedRows[ObjectKey, list[AgeOrder]] = SharedRows(list)

    def of(self, owner: ObjectKey) -> list[ObjectKey]:
        """Pods that belong to this owner, the oldest first."""
        return [key for _, _, key in self._sorted.get(owner) or ()]

    def oldest(self, owner: ObjectKey) -> ObjectKey | None:
        found = self._sorted.get(owner)
        return None if found is None else found[0][2]

    def youngest(self, owner: ObjectKey) -> ObjectKey | None:
        found = self._sorted.get(owner)
        return None if found is None else found[-1][2]

    def add(self, owner: ObjectKey, pod: Pod) -> None:
        insort(self._sorted.own(owner), age_order(pod))

    def drop(self, owner: ObjectKey, pod: Pod) -> None:
        found = self._sorted.own(owner)
        del found[bisect_left(found, age_order(pod))]
        if not found:
            self._sorted.drop(owner)
