"""Whether one more node can go with those that were found before it: its pods leave, or all of it is taken back."""

from ullage.decide.drain.budgets import Budgets
from ullage.decide.drain.destinations import Destinations
from ullage.decide.drain.facts import DrainPolicy
from ullage.decide.drain.gangs import Gangs, GangStays
from ullage.decide.drain.loads import Load
from ullage.decide.drain.placing import Places, Placing
from ullage.model.drain import Move, Removable, Unremovable, WhyGoes, WhyStays
from ullage.model.pod import Pod


class Candidacy:
    """Tries one node after the other; who is found to be a candidate stays emptied."""

    def __init__(
        self, placing: Placing, destinations: Destinations, gangs: Gangs, budgets: Budgets, policy: DrainPolicy
    ) -> None:
        self._placing = placing
        self._destinations = destinations
        self._gangs = gangs
        self._budgets = budgets
        self._in_turn = policy.in_turn
        self._rows = placing.placements.columns.rows
        self._taking: set[str] = set()
        self.places: Places = {}
        """Where pods would go, of all candidates so far."""

    def promise(self, places: Places) -> None:
        """Nodes pods have to go to already are no candidates."""
        self._taking.update(places.values())

    def of(self, load: Load, *, ready: bool) -> Removable | Unremovable:
        """A candidate, with all that has to leave for it; or why it is none."""
        if load.node in self._taking:
            return Unremovable(node=load.node, why=WhyStays.DESTINATION)
        leaving = [pod for pod in load.moving if pod.key not in self.places]
        followers = self._gangs.companions(leaving, self.places)
        if isinstance(followers, GangStays):
            return Unremovable(node=load.node, why=WhyStays.GANG_STAYS, pod=followers.pod, detail=followers.detail)
        leaving += followers
        short = self._budgets.refuses(leaving, in_turn=self._in_turn)
        if short is not None:
            detail = f"{self._budgets.cost(short)} does not allow so many"
            return Unremovable(node=load.node, why=WhyStays.NOT_ENOUGH_PDB, pod=short.key, detail=detail)
        stuck = self._emptied(load.node, leaving)
        if stuck is not None:
            return stuck
        self._budgets.charge(leaving)
        why = WhyGoes.UNDERUTILIZED if load.moving or load.waited_for else WhyGoes.EMPTY
        return Removable(
            node=load.node,
            why=why if ready else WhyGoes.UNREADY,
            moves=self._moves(load, followers),
            waits_for=tuple(load.waited_for),
        )

    def _emptied(self, node: str, leaving: list[Pod]) -> Unremovable | None:
        """Take everybody off a node, for good; or a pod has no place, and nothing has happened."""
        row = self._rows[node]
        self._destinations.close(row)
        with self._placing.moving.attempt() as trial:
            self._placing.moving.make_ghost(node)
            places = self._placing.move(leaving) if leaving else {}
            if not isinstance(places, Pod):
                trial.keep()
                self.places.update(places)
                self._taking.update(places.values())
                return None
            why = self._placing.why_nowhere(places)
        self._destinations.reopen(row)
        return Unremovable(node=node, why=WhyStays.NO_PLACE, pod=places.key, detail=why)

    def _moves(self, load: Load, followers: list[Pod]) -> tuple[Move, ...]:
        """All that leave for this node: its own pods, and gangs of theirs that have to move whole."""
        gangs = dict.fromkeys(filter(None, map(self._gangs.of, load.moving)))
        keys = [pod.key for pod in load.moving]
        if gangs:
            whole = {pod.key for pod in followers}
            for gang in gangs:
                members = [pod.key for pod in self._gangs.live(gang)]
                if all(member in self.places for member in members):
                    whole.update(members)
            keys = sorted(whole.union(keys))
        return tuple([Move(key, self.places[key]) for key in keys])
