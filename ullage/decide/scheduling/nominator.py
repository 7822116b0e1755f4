"""Nominator: nominated pods, and the victims evicted for them. Decides by `decide.preempt`; no I/O."""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from ullage.decide.gang.attempts import largest_first
from ullage.decide.gang.placement import GangRequest
from ullage.decide.preemption.for_gangs import preempt_for_gang
from ullage.decide.preemption.preempt import NoPreemption, NoPreemptionReason, preempt
from ullage.decide.preemption.protection import BoundGang, PreemptionContext
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.action import Preempt
from ullage.model.fact_event import ObjectKey
from ullage.model.outcome import PreemptOutcome
from ullage.model.pod import Pod
from ullage.state.snapshot import ClusterSnapshot


class Nominator:
    """Nominations and victims of one scheduler."""

    def __init__(self, placements: ClusterSnapshot) -> None:
        self._placements = placements
        self._nominated: dict[ObjectKey, Pod] = {}
        self._leaving: dict[ObjectKey, str] = {}
        self._priorities: Counter[int] = Counter()

    @property
    def nominated(self) -> tuple[Pod, ...]:
        """Pending pods nominated to a node, with what their claims ask for."""
        return tuple(self._nominated.values())

    def with_node(self, pod: Pod) -> Pod:
        """The pod with the node nominated for it, whether or not the write was observed."""
        known = self._nominated.get(pod.key)
        return pod if known is None else replace(pod, nominated=known.nominated)

    def nominate(self, ready: Pod, node: str) -> None:
        self._nominated[ready.key] = replace(ready, nominated=node)

    def forget(self, key: ObjectKey) -> bool:
        """Drop the pod's nomination. True if it had one."""
        return self._nominated.pop(key, None) is not None

    def pod_heard(self, old: Pod | None, new: Pod | None) -> None:
        """Take in a pod that was placed on a node, left it, or was replaced."""
        if old is not None and old.holds_room:
            self._priorities[old.priority] -= 1
        if new is not None and new.holds_room:
            self._priorities[new.priority] += 1
        left = old if new is None or not new.holds_room else None
        if left is not None:
            self._leaving.pop(left.key, None)

    def settled(self, outcome: PreemptOutcome) -> None:
        """Victims that were not evicted are not leaving."""
        for victim in outcome.action.victims:
            if victim not in outcome.evicted:
                self._leaving.pop(victim.pod, None)
        if not outcome.nominated:
            self.forget(outcome.action.pod)

    def for_pod(self, assigner: PodAssigner, pod: Pod, *, now: float) -> tuple[Preempt, ...] | NoPreemption:
        """Victims for a pod that was refused. Nomination and victims count from now on."""
        if not self._any_lower(pod.priority):
            return NoPreemption(NoPreemptionReason.NOT_ENOUGH_LOWER)
        found = preempt(assigner.seating, pod, self._around(assigner, (pod,)), now=now)
        return found if isinstance(found, NoPreemption) else self._decided((pod,), (found,))

    def for_gang(self, assigner: PodAssigner, gang: GangRequest, *, now: float) -> tuple[Preempt, ...] | NoPreemption:
        """Victims for all pending pods of a gang that was refused."""
        if not any(self._any_lower(pod.priority) for pod in gang.pending):
            return NoPreemption(NoPreemptionReason.NOT_ENOUGH_LOWER)
        if not all(pod.preempts for pod in gang.pending):
            return NoPreemption(NoPreemptionReason.PREEMPTS_NOBODY)
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
        """True if a placed pod has lower priority. Most clusters have one priority: then no node need be searched."""
        return any(count > 0 and known < priority for known, count in self._priorities.items())

    def _around(self, assigner: PodAssigner, pods: Iterable[Pod]) -> PreemptionContext:
        state, gangs = self._placements.state, {}
        for key in state.gangs:
            members = tuple(pod.key for pod in assigner.members(key) if pod.key in self._placements.pods)
            gang = BoundGang(key, assigner.gang_size(key), members)
            gangs.update(dict.fromkeys(members, gang))
        return PreemptionContext(
            gangs=gangs,
            leaving=frozenset(self._leaving),
            closed=assigner.quota.closed(pods),
            nominated=self.nominated,
        )
