"""Nominator: nominated pods, and the victims evicted for them. Searches by `decide.preemption`; no I/O."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from ullage.decide.gang.attempts import largest_first
from ullage.decide.gang.membership import gang_members, gang_of, gang_size
from ullage.decide.gang.placement import GangRequest
from ullage.decide.preemption.assumptions import Assumptions
from ullage.decide.preemption.for_gangs import search_gang_preemption
from ullage.decide.preemption.preempt import NoPreemption, NoPreemptionReason, search_preemption
from ullage.decide.preemption.protection import BoundGang, PreemptionContext
from ullage.decide.preemption.recheck import is_still_right
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import Preempt
from ullage.model.outcomes import PreemptOutcome
from ullage.model.pod import Pod
from ullage.model.stepper import Stepper
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot


class Nominator:
    """Nominations and victims of one scheduler."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
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

    def observe_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Take in a pod that was placed on a node, left it, or was replaced."""
        if old is not None and old.holds_room:
            self._priorities[old.priority] -= 1
        if new is not None and new.holds_room:
            self._priorities[new.priority] += 1
        left = old if new is None or not new.holds_room else None
        if left is not None:
            self._leaving.pop(left.key, None)

    def settle(self, outcome: PreemptOutcome) -> None:
        """Victims that were not evicted are not leaving."""
        for victim in outcome.action.victims:
            if victim not in outcome.evicted:
                self._leaving.pop(victim.pod, None)
        if not outcome.nominated:
            self.forget(outcome.action.pod)

    def search_for_pod(
        self, assigner: PodAssigner, pod: Pod, *, now: Instant
    ) -> Stepper[tuple[Preempt, ...] | NoPreemption]:
        """Search victims for a pod that was refused. Nothing counts before `decide`."""
        if not self._any_lower(pod.priority):
            return NoPreemption(NoPreemptionReason.NOT_ENOUGH_LOWER)
        given = Assumptions(assigner.engine, now=now)
        found = yield from search_preemption(given, pod, self._context(assigner, (pod,)))
        return found if isinstance(found, NoPreemption) else (found,)

    def search_for_gang(
        self, assigner: PodAssigner, gang: GangRequest, *, now: Instant
    ) -> Stepper[tuple[Preempt, ...] | NoPreemption]:
        """Search victims for all pending pods of a gang that was refused."""
        if not any(self._any_lower(pod.priority) for pod in gang.pending):
            return NoPreemption(NoPreemptionReason.NOT_ENOUGH_LOWER)
        if not all(pod.preempts for pod in gang.pending):
            return NoPreemption(NoPreemptionReason.PREEMPTS_NOBODY)
        needed = largest_first(gang.pending)[-gang.needed :]
        context = self._context(assigner, needed)
        return (yield from search_gang_preemption(Assumptions(assigner.engine, now=now), gang, context))

    def is_still_right(
        self, assigner: PodAssigner, pods: Sequence[Pod], actions: Sequence[Preempt], *, now: Instant
    ) -> bool:
        """True if what was found by a search is right on the snapshot as it is now."""
        ready = {pod.key: pod for pod in pods}
        context = self._context(assigner, [ready[action.pod] for action in actions])
        return is_still_right(assigner.engine, actions, ready, context, now=now)

    def decide(self, pods: Sequence[Pod], actions: Sequence[Preempt]) -> None:
        """Evict these victims: nominations count from now on, and victims count as leaving."""
        ready = {pod.key: pod for pod in pods}
        for action in actions:
            self.nominate(ready[action.pod], action.node)
            self._leaving.update({victim.pod: victim.uid for victim in action.victims})

    def _any_lower(self, priority: int) -> bool:
        """True if a placed pod has lower priority. Most clusters have one priority: then no node need be searched."""
        return any(count > 0 and known < priority for known, count in self._priorities.items())

    def _context(self, assigner: PodAssigner, pods: Iterable[Pod]) -> PreemptionContext:
        return PreemptionContext(
            gangs=BoundGangs(assigner.snapshot),
            leaving=frozenset(self._leaving),
            closed=assigner.quota.closed(pods),
            nominated=self.nominated,
        )


class BoundGangs(Mapping[ObjectKey, BoundGang]):
    """Bound gangs by member, each found when it is asked for: a cluster may have thousands, a search meets a few."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._state, self._pods = snapshot.state, snapshot.pods
        self._known: dict[ObjectKey, BoundGang] = {}

    def __getitem__(self, key: ObjectKey) -> BoundGang:
        pod = self._pods.get(key)
        gang = None if pod is None else gang_of(pod, self._state)
        if gang is None:
            raise KeyError(key)
        known = self._known.get(gang)
        if known is None:
            members = tuple(one.key for one in gang_members(gang, self._state) if one.key in self._pods)
            known = self._known[gang] = BoundGang(gang, gang_size(gang, self._state), members)
        return known

    def __iter__(self) -> Iterator[ObjectKey]:
        return (key for key in self._pods if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
