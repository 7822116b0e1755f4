"""Removal trial: can one more node go together with those found before? Its pods are moved, or all is undone.

A gang moves whole or stays: members on other nodes move along.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ullage.decide.draining.destinations import DestinationSearch
from ullage.decide.draining.inputs import DrainPolicy
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.draining.relocation import Places, PodRelocator
from ullage.decide.draining.rules import Drainability, DrainabilityCache, DrainBlocked
from ullage.decide.gang.membership import gang_members, gang_of, gang_size
from ullage.decide.provisioning.pool_nodes import is_left_behind
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.draining import PASSING, PodMove, RemovableNode, ScaleDownReason, UnremovableNode, UnremovableReason
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.state.dra_allocations import holder_key
from ullage.state.snapshot import ClusterSnapshot


@dataclass(slots=True)
class PodsToMove:
    """Pods of one node: to move, to wait for, and the first that blocks its removal."""

    node: str
    moving: list[Pod] = field(default_factory=list)
    """By name."""
    migrated: set[ObjectKey] = field(default_factory=set)
    """Those of them that are migrated, and use up no disruption budget."""
    waited_for: list[ObjectKey] = field(default_factory=list)
    blocked: UnremovableNode | None = None
    """First pod by name that must stay, or that is assumed to this node and not bound yet. A pod whose budget is spent
    counts only if no other pod blocks: that passes."""


def pods_to_move(node: str, snapshot: ClusterSnapshot, drainabilities: DrainabilityCache) -> PodsToMove:
    """Apply the drain rules to every pod on a node."""
    load, heard = PodsToMove(node), snapshot.state.pods
    holder, moves = holder_key(node), load.moving.append
    here = snapshot.pods_on(node)
    for key in sorted(here):
        pod = here[key]
        known = heard.get(key)
        if known is None or known.node != node:
            if key == holder:
                continue  # devices allocated by DRA: the pods that use them are on this node, too
            if is_left_behind(pod):
                continue  # its pod is gone: the GPU is freed, or in quarantine, and goes with the node
            load.blocked = UnremovableNode(
                node=node, reason=UnremovableReason.DESTINATION, pod=_named(known), detail="it is about to come"
            )
            return load
        answer = drainabilities.of(pod)
        if answer is Drainability.EVICT:
            moves(pod)
        elif answer is Drainability.MIGRATE:
            moves(pod)
            load.migrated.add(key)
        elif isinstance(answer, DrainBlocked):
            found = UnremovableNode(node=node, reason=answer.reason, pod=key, detail=answer.detail)
            if answer.reason not in PASSING:
                load.blocked = found
                return load
            load.blocked = load.blocked or found
        elif answer is Drainability.WAIT_FOR_COMPLETION:
            load.waited_for.append(key)
    return load


def _named(pod: Pod | None) -> ObjectKey | None:
    return None if pod is None else pod.key


@dataclass(frozen=True, slots=True)
class GangUnmovable:
    """A gang that cannot be moved, and the pod that prevents it."""

    pod: ObjectKey
    detail: str


class GangMoves:
    """Gang members of one snapshot, and the moves they force."""

    def __init__(self, assigner: PodAssigner, drainabilities: DrainabilityCache) -> None:
        self._assigner = assigner
        self._drainabilities = drainabilities

    def of(self, pod: Pod) -> ObjectKey | None:
        """Gang of a pod, if it is in one."""
        return gang_of(pod, self._assigner.snapshot.state) if pod.claim or pod.claim_template else None

    def among(self, pods: Iterable[Pod]) -> list[ObjectKey]:
        """Gangs of these pods, each once, in their order."""
        state = self._assigner.snapshot.state
        found = [gang_of(pod, state) for pod in pods if pod.claim or pod.claim_template]
        return list(dict.fromkeys(gang for gang in found if gang is not None))

    def live(self, gang: ObjectKey) -> list[Pod]:
        """Members that hold room and are not being deleted, by name, where they are now."""
        state, held = self._assigner.snapshot.state, self._assigner.snapshot.pods
        return [held[pod.key] for pod in gang_members(gang, state) if pod.key in held and not pod.deleting]

    def companions(self, leaving: Sequence[Pod], gone: Collection[ObjectKey]) -> list[Pod] | GangUnmovable:
        """Gang members that must leave together with the `leaving` pods. `gone` have left already.

        Members beyond the gang's size move one by one. If fewer than its size would be left, all others follow.
        """
        found: dict[ObjectKey, Pod] = {}
        gangs = self.among(leaving)
        if not gangs:
            return []
        out = {pod.key for pod in leaving}
        for gang in gangs:
            size = gang_size(gang, self._assigner.snapshot.state)
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
        answer = self._drainabilities.of(pod)
        if answer in (Drainability.EVICT, Drainability.MIGRATE):
            return None
        why = answer.reason if isinstance(answer, DrainBlocked) else UnremovableReason.WAITS_FOR_COMPLETION
        return GangUnmovable(pod.key, f"gang {gang} moves whole, and a member on {pod.node} does not: {why}")


class RemovalTrial:
    """Tries nodes one after another. A node found removable stays emptied in the snapshot."""

    def __init__(
        self,
        relocator: PodRelocator,
        destinations: DestinationSearch,
        gangs: GangMoves,
        budgets: RemainingPdbTracker,
        policy: DrainPolicy,
    ) -> None:
        self._relocator = relocator
        self._destinations = destinations
        self._gangs = gangs
        self._budgets = budgets
        self._in_turn = policy.in_turn
        self._rows = relocator.snapshot.columns.rows
        self._taking: set[str] = set()
        self.places: Places = {}
        """Destinations of the pods of all removable nodes so far."""
        self.waiting_for_budget: list[str] = []
        """Nodes that could go, but for a budget that removals found before use up."""

    def exclude(self, places: Places) -> None:
        """Exclude nodes that are destinations of pods already."""
        self._taking.update(places.values())

    def of(self, load: PodsToMove, *, ready: bool) -> RemovableNode | UnremovableNode:
        """Removable node with the moves it needs, or the reason why it is not removable."""
        if load.node in self._taking:
            return UnremovableNode(node=load.node, reason=UnremovableReason.DESTINATION)
        leaving = [pod for pod in load.moving if pod.key not in self.places]
        members = self._gangs.companions(leaving, self.places)
        if isinstance(members, GangUnmovable):
            return UnremovableNode(
                node=load.node, reason=UnremovableReason.GANG_STAYS, pod=members.pod, detail=members.detail
            )
        leaving += members
        evicted = [pod for pod in leaving if pod.key not in load.migrated] if load.migrated else leaving
        short = self._budgets.refuses(evicted, in_turn=self._in_turn)
        stuck = self._emptied(load.node, leaving, for_good=short is None)
        if stuck is not None:
            return stuck
        if short is not None:
            if self._budgets.refuses(evicted, in_turn=self._in_turn, charged=False) is None:
                self.waiting_for_budget.append(load.node)
            detail = f"{self._budgets.cost(short)} does not allow so many"
            return UnremovableNode(
                node=load.node, reason=UnremovableReason.NOT_ENOUGH_PDB, pod=short.key, detail=detail
            )
        self._budgets.charge(evicted)
        why = ScaleDownReason.UNDERUTILIZED if load.moving or load.waited_for else ScaleDownReason.EMPTY
        return RemovableNode(
            node=load.node,
            reason=why if ready else ScaleDownReason.UNREADY,
            moves=self._moves(load, members),
            waits_for=tuple(load.waited_for),
        )

    def _emptied(self, node: str, leaving: list[Pod], *, for_good: bool) -> UnremovableNode | None:
        """Empty a node, or return the pod without a place and undo. Without `for_good` all is undone in any case."""
        row = self._rows[node]
        self._destinations.close(row)
        with self._relocator.snapshot.what_if() as trial:
            self._relocator.close_to_new_pods(node)
            places = self._relocator.move(leaving) if leaving else {}
            if not isinstance(places, Pod) and for_good:
                trial.keep()
                self.places.update(places)
                self._taking.update(places.values())
                return None
            why = self._relocator.why_nowhere(places) if isinstance(places, Pod) else ""
        self._destinations.reopen(row)
        if not isinstance(places, Pod):
            return None
        return UnremovableNode(node=node, reason=UnremovableReason.NO_PLACE, pod=places.key, detail=why)

    def _moves(self, load: PodsToMove, along: list[Pod]) -> tuple[PodMove, ...]:
        """Moves this removal needs: the node's own pods, and members of gangs that move whole."""
        gangs = self._gangs.among(load.moving)
        keys = [pod.key for pod in load.moving]
        if gangs:
            whole = {pod.key for pod in along}
            for gang in gangs:
                members = [pod.key for pod in self._gangs.live(gang)]
                if all(member in self.places for member in members):
                    whole.update(members)
            keys = sorted(whole.union(keys))
        return tuple([PodMove(key, self.places[key]) for key in keys])
