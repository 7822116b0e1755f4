"""Removal trial: can one more node go together with those found before? Its pods are moved, or all is undone."""

from ullage.decide.draining.destinations import DestinationSearch
from ullage.decide.draining.gangs import GangMoves, GangUnmovable
from ullage.decide.draining.inputs import DrainPolicy
from ullage.decide.draining.loads import PodsToMove
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.draining.placing import Places, PodRelocator
from ullage.model.draining import PodMove, RemovableNode, ScaleDownReason, UnremovableNode, UnremovableReason
from ullage.model.pod import Pod


class RemovalTrial:
    """Tries nodes one after another. A node found removable stays emptied in the snapshot."""

    def __init__(
        self,
        placing: PodRelocator,
        destinations: DestinationSearch,
        gangs: GangMoves,
        budgets: RemainingPdbTracker,
        policy: DrainPolicy,
    ) -> None:
        self._placing = placing
        self._destinations = destinations
        self._gangs = gangs
        self._budgets = budgets
        self._in_turn = policy.in_turn
        self._rows = placing.placements.columns.rows
        self._taking: set[str] = set()
        self.places: Places = {}
        """Destinations of the pods of all removable nodes so far."""
        self.next_turn: list[str] = []
        """Nodes that could go, but for a budget that removals found before use up."""

    def promise(self, places: Places) -> None:
        """Exclude nodes that are destinations of pods already."""
        self._taking.update(places.values())

    def of(self, load: PodsToMove, *, ready: bool) -> RemovableNode | UnremovableNode:
        """Removable node with the moves it needs, or the reason why it is not removable."""
        if load.node in self._taking:
            return UnremovableNode(node=load.node, reason=UnremovableReason.DESTINATION)
        leaving = [pod for pod in load.moving if pod.key not in self.places]
        followers = self._gangs.companions(leaving, self.places)
        if isinstance(followers, GangUnmovable):
            return UnremovableNode(
                node=load.node, reason=UnremovableReason.GANG_STAYS, pod=followers.pod, detail=followers.detail
            )
        leaving += followers
        short = self._budgets.refuses(leaving, in_turn=self._in_turn)
        stuck = self._emptied(load.node, leaving, for_good=short is None)
        if stuck is not None:
            return stuck
        if short is not None:
            if self._budgets.refuses(leaving, in_turn=self._in_turn, charged=False) is None:
                self.next_turn.append(load.node)
            detail = f"{self._budgets.cost(short)} does not allow so many"
            return UnremovableNode(
                node=load.node, reason=UnremovableReason.NOT_ENOUGH_PDB, pod=short.key, detail=detail
            )
        self._budgets.charge(leaving)
        why = ScaleDownReason.UNDERUTILIZED if load.moving or load.waited_for else ScaleDownReason.EMPTY
        return RemovableNode(
            node=load.node,
            reason=why if ready else ScaleDownReason.UNREADY,
            moves=self._moves(load, followers),
            waits_for=tuple(load.waited_for),
        )

    def _emptied(self, node: str, leaving: list[Pod], *, for_good: bool) -> UnremovableNode | None:
        """Empty a node, or return the pod without a place and undo. Without `for_good` all is undone in any case."""
        row = self._rows[node]
        self._destinations.close(row)
        with self._placing.placements.what_if() as trial:
            self._placing.close_to_new_pods(node)
            places = self._placing.move(leaving) if leaving else {}
            if not isinstance(places, Pod) and for_good:
                trial.keep()
                self.places.update(places)
                self._taking.update(places.values())
                return None
            why = self._placing.why_nowhere(places) if isinstance(places, Pod) else ""
        self._destinations.reopen(row)
        if not isinstance(places, Pod):
            return None
        return UnremovableNode(node=node, reason=UnremovableReason.NO_PLACE, pod=places.key, detail=why)

    def _moves(self, load: PodsToMove, followers: list[Pod]) -> tuple[PodMove, ...]:
        """Moves this removal needs: the node's own pods, and members of gangs that move whole."""
        gangs = dict.fromkeys(filter(None, map(self._gangs.of, load.moving)))
        keys = [pod.key for pod in load.moving]
        if gangs:
            whole = {pod.key for pod in followers}
            for gang in gangs:
                members = [pod.key for pod in self._gangs.live(gang)]
                if all(member in self.places for member in members):
                    whole.update(members)
            keys = sorted(whole.union(keys))
        return tuple([PodMove(key, self.places[key]) for key in keys])
