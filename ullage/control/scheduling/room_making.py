"""For whom nodes are being made free, and who is leaving for them. Decides by `decide.preempt`; no I/O."""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from ullage.decide.assigning import Assigner
from ullage.decide.gang.attempts import largest_first
from ullage.decide.gang.seating import GangAsk
from ullage.decide.preempt.gangs import preempt_for_gang
from ullage.decide.preempt.preempting import NoPreemption, NoVictims, preempt
from ullage.decide.preempt.protection import BoundGang, Surroundings
from ullage.model.action import Preempt
from ullage.model.event import ObjectKey
from ullage.model.outcome import PreemptOutcome
from ullage.model.pod import Pod
from ullage.state.placements import Placements


class RoomMaking:
    """Nominations and victims of one scheduler."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self._nominated: dict[ObjectKey, Pod] = {}
        self._leaving: dict[ObjectKey, str] = {}
        self._priorities: Counter[int] = Counter()

    @property
    def nominated(self) -> tuple[Pod, ...]:
        """Waiting pods for which a node is being made free, with what their claims ask for."""
        return tuple(self._nominated.values())

    def with_node(self, pod: Pod) -> Pod:
        """The pod with the node nominated for it, whether or not that was heard back."""
        known = self._nominated.get(pod.key)
        return pod if known is None else replace(pod, nominated=known.nominated)

    def nominate(self, ready: Pod, node: str) -> None:
        self._nominated[ready.key] = replace(ready, nominated=node)

    def forget(self, key: ObjectKey) -> bool:
        """No node is kept for it any more. Whether one was."""
        return self._nominated.pop(key, None) is not None

    def pod_heard(self, old: Pod | None, new: Pod | None) -> None:
        """Somebody came to a node, left it, or is replaced."""
        if old is not None and old.holds_room:
            self._priorities[old.priority] -= 1
        if new is not None and new.holds_room:
            self._priorities[new.priority] += 1
        left = old if new is None or not new.holds_room else None
        if left is not None:
            self._leaving.pop(left.key, None)

    def settled(self, outcome: PreemptOutcome) -> None:
        """Whoever was not evicted is not leaving."""
        for victim in outcome.action.victims:
            if victim not in outcome.evicted:
                self._leaving.pop(victim.pod, None)
        if not outcome.nominated:
            self.forget(outcome.action.pod)

    def for_pod(self, assigner: Assigner, pod: Pod, *, now: float) -> tuple[Preempt, ...] | NoPreemption:
        """Who has to leave for a pod that was refused. What is decided counts from now on."""
        if not self._any_lower(pod.priority):
            return NoPreemption(NoVictims.NOT_ENOUGH_LOWER)
        found = preempt(assigner.seating, pod, self._around(assigner, (pod,)), now=now)
        return found if isinstance(found, NoPreemption) else self._decided((pod,), (found,))

    def for_gang(self, assigner: Assigner, gang: GangAsk, *, now: float) -> tuple[Preempt, ...] | NoPreemption:
        """Who has to leave for all of a gang that was refused."""
        if not any(self._any_lower(pod.priority) for pod in gang.pending):
            return NoPreemption(NoVictims.NOT_ENOUGH_LOWER)
        if not all(pod.preempts for pod in gang.pending):
            return NoPreemption(NoVictims.PREEMPTS_NOBODY)
        needed = largest_first(gang.pending)[-gang.needed :]
        found = preempt_for_gang(assigner.seating, gang, self._around(assigner, needed), now=now)
        return found if isinstance(found, NoPreemption) else self._decided(gang.pending, found)

    def _decided(self, pods: tuple[Pod, ...], actions: tuple[Preempt, ...]) -> tuple[Preempt, ...]:
        ready = {pod.key: pod for pod in pods}
        for action in actions:
            self.nominate(ready[action.pod], action.node)
            self._leaving.update({victim.pod: victim.uid for victim in action.victims})
        return actions

    def _any_lower(self, priority: int) -> bool:
        """Most clusters have one priority: then no node need be looked at."""
        return any(count > 0 and known < priority for known, count in self._priorities.items())

    def _around(self, assigner: Assigner, pods: Iterable[Pod]) -> Surroundings:
        state, gangs = self._placements.state, {}
        for key in state.gangs:
            members = tuple(pod.key for pod in assigner.members(key) if pod.key in self._placements.pods)
            gang = BoundGang(key, assigner.gang_size(key), members)
            gangs.update(dict.fromkeys(members, gang))
        return Surroundings(
            gangs=gangs,
            leaving=frozenset(self._leaving),
            closed=assigner.quota.closed(pods),
            nominated=self.nominated,
        )
