"""Pods in back-off that an event may have helped, in line by kind, so that no later pod takes the room they wait for.

After an event the first in line of each kind may be tried at once, before any pod behind it. Pods of one kind get one
answer, so a kind that was tried in vain is left alone until the next event. That bounds the cost of an event: a few
tries, however many pods wait.
"""

from bisect import bisect_left, insort
from collections.abc import Hashable

from ullage.model.fact_event import ObjectKey
from ullage.model.verdict import ClusterEvent

TRIES_AFTER_EVENT = 16
"""Failed tries that one event is worth."""

Order = tuple[int, float, int, ObjectKey]
"""Sort key of waiting pods: priority, then age, then a ticket that tells apart pods queued at the same instant."""


class Overtaken:
    """Lines of pods by kind, and the kinds tried in vain since the last event."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, list[Order]] = {}
        self._in_vain: dict[Hashable, frozenset[ClusterEvent]] = {}
        """Kinds tried in vain, with the events that would help them."""
        self._tries = 0

    def join(self, kind: Hashable, order: Order) -> None:
        insort(self._lines.setdefault(kind, []), order)

    def leave(self, kind: Hashable, order: Order) -> None:
        line = self._lines[kind]
        del line[bisect_left(line, order)]
        if not line:
            del self._lines[kind]
            self._in_vain.pop(kind, None)

    def count_event(self, event: ClusterEvent) -> None:
        """Allow another try of every kind that this event may help."""
        self._tries = TRIES_AFTER_EVENT
        for kind, wakes_on in tuple(self._in_vain.items()):
            if event in wakes_on:
                del self._in_vain[kind]

    def first(self, behind: Order | None) -> ObjectKey | None:
        """Return the pod to try before the pod at the head of the active queue (`behind`); None if there is none."""
        if not self._tries or not self._lines:
            return None
        first = min((line[0] for kind, line in self._lines.items() if kind not in self._in_vain), default=None)
        return None if first is None or (behind is not None and behind < first) else first[-1]

    def tried(self) -> None:
        """Count one failed try of a pod whose back-off had not ended."""
        self._tries = max(self._tries - 1, 0)

    def in_vain(self, kind: Hashable, wakes_on: frozenset[ClusterEvent]) -> None:
        """Leave the other pods of a kind in line untried: one of them found no place as things are."""
        if kind in self._lines:
            self._in_vain[kind] = wakes_on
