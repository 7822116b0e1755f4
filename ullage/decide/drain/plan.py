"""One loop of the planner: an answer for every node, and candidates that can all go together.

The picture is written on while it decides and is exactly as before when it has: see `moving`.
"""

from collections.abc import Iterable
from itertools import chain

import numpy as np

from ullage.decide.assigning import Assigner, waits
from ullage.decide.drain.budgets import Budgets
from ullage.decide.drain.destinations import Destinations
from ullage.decide.drain.eligibility import Census, ineligible, is_draining
from ullage.decide.drain.evictions import kept, still_missing
from ullage.decide.drain.facts import FRESH, UNLIMITED, DrainFacts, DrainMemory, DrainPlan, DrainPolicy, Limits
from ullage.decide.drain.floors import Floors
from ullage.decide.drain.gangs import Gangs
from ullage.decide.drain.loads import Load, load_of
from ullage.decide.drain.order import in_order
from ullage.decide.drain.placing import Places, Placing
from ullage.decide.drain.room import seat_waiting
from ullage.decide.drain.rules import Circumstances, Ruling, Rulings
from ullage.decide.drain.timers import candidates_since, marked_since
from ullage.decide.drain.trial import Candidacy
from ullage.decide.drain.utilisation import used_shares
from ullage.model.drain import Removable, Unremovable, WhyStays
from ullage.model.pod import Pod
from ullage.model.provisioner import PROVISIONER_LABEL


def plan_drain(
    assigner: Assigner,
    facts: DrainFacts,
    policy: DrainPolicy,
    memory: DrainMemory = FRESH,
    limits: Limits = UNLIMITED,
    *,
    now: float,
) -> DrainPlan:
    """Which nodes can go together now, and why the others stay."""
    with assigner.placements.what_if():
        return _Loop(assigner, facts, policy, memory, now).run(limits)


class _Loop:
    def __init__(
        self, assigner: Assigner, facts: DrainFacts, policy: DrainPolicy, memory: DrainMemory, now: float
    ) -> None:
        self._assigner = assigner
        self._placements = placements = assigner.placements
        self._facts = facts
        self._policy = policy
        self._memory = memory
        self._now = now
        self._nodes = placements.state.nodes
        self._rows = placements.columns.rows
        self._removing = {name for name in facts.removing if name in self._nodes}
        self._removing |= {
            name for name, node in self._nodes.items() if is_draining(node) and name not in facts.resumable
        }
        self._budgets = Budgets(placements.state.budgets)
        around = Circumstances(policy.rules, self._budgets, facts.workloads, facts.workload_kinds, now)
        self._rulings = Rulings(around)
        self._promised: Places = {}
        """Where pods go that have to leave already."""
        self._evicted = kept(facts.evictions, keep=policy.evictions_kept, now=now)

    def run(self, limits: Limits) -> DrainPlan:
        # 1. who waits for a node comes before everybody who has one
        seat_waiting(self._assigner, now=self._now)
        destinations = Destinations(self._assigner.seating, now=self._now)
        placing = Placing(
            self._assigner.seating, destinations, self._memory, now=self._now, also=[one.pod for one in self._evicted]
        )
        with placing.moving.attempt():
            # 2. nodes that are being removed, and pods that were evicted a moment ago
            for name in sorted(self._removing):
                destinations.close(self._rows[name])
                placing.moving.make_ghost(name)
            problem = self._unplaced(placing)
            # 3. who may be tried, in order; the others are asked for room first
            stays, loads = self._sorted_out()
            if problem is not None:
                stays |= {load.node: Unremovable(node=load.node, why=problem[0], pod=problem[1].key) for load in loads}
                loads = []
            destinations.search_in(self._search_order(loads))
            # 4. one by one
            candidacy = Candidacy(
                placing, destinations, Gangs(self._assigner, self._rulings), self._budgets, self._policy
            )
            candidacy.promise(self._promised | self._nominated())
            return self._walk(loads, stays, candidacy, limits)

    def _nominated(self) -> Places:
        """Nodes that are being made free for somebody."""
        pods = self._placements.state.pods.values()
        return {pod.key: pod.nominated for pod in pods if pod.nominated and waits(pod)}

    def _unplaced(self, placing: Placing) -> tuple[WhyStays, Pod] | None:
        """The first pod that was promised a place and has none any more."""
        for name in sorted(self._removing):
            here = self._placements.pods_on(name)
            leaving = [here[key] for key in sorted(here) if self._leaves(here[key])]
            self._budgets.charge(leaving)
            places = placing.move(leaving)
            if isinstance(places, Pod):
                return WhyStays.DRAINED_PODS_UNPLACED, places
            self._promised |= places
        missing = still_missing(self._evicted, self._facts.workloads, self._placements)
        places = placing.move(missing)
        if isinstance(places, Pod):
            return WhyStays.EVICTED_PODS_UNPLACED, places
        self._promised |= places
        return None

    def _leaves(self, pod: Pod) -> bool:
        """It is on a node that is being removed, and has to be somewhere else afterwards."""
        if pod.deleting or pod.key not in self._placements.state.pods:
            return False
        return self._rulings.of(pod) not in (Ruling.GOES_WITH_NODE, Ruling.IGNORED)

    def _sorted_out(self) -> tuple[dict[str, Unremovable], list[Load]]:
        shares, too_much = used_shares(self._placements, self._policy)
        census = Census(self._facts, self._policy, self._removing, shares, too_much.tolist(), self._rows)
        stays: dict[str, Unremovable] = {}
        loads: list[Load] = []
        for name in sorted(self._nodes):
            problem = ineligible(self._nodes[name], census)
            if problem is None:
                load = load_of(name, self._placements, self._rulings)
                problem = load.blocked
                if problem is None:
                    loads.append(load)
                    continue
            stays[name] = problem
        return stays, in_order(loads, self._placements.columns, shares, self._facts.prices)

    def _search_order(self, loads: list[Load]) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
        """From the other end: who is not tried at all, then who is tried last."""
        tried = [load.node for load in loads]
        others = sorted(self._nodes.keys() - set(tried), reverse=True)
        return np.array([self._rows[name] for name in chain(others, reversed(tried))], np.intp)

    def _walk(
        self, loads: list[Load], stays: dict[str, Unremovable], candidacy: Candidacy, limits: Limits
    ) -> DrainPlan:
        floors, tried = self._floors(loads), 0
        removable: list[Removable] = []
        refused: dict[str, tuple[float, Unremovable]] = {}
        for load in loads:
            node, empty = self._nodes[load.node], not load.moving and not load.waited_for
            lately = self._lately(load)
            answer: Removable | Unremovable | None = floors.reached(node, empty=empty) or lately
            if answer is None and limits.most_candidates is not None and len(removable) >= limits.most_candidates:
                answer = Unremovable(node=load.node, why=WhyStays.CANDIDATE_LIMIT)
            if answer is None and tried >= limits.least_tried and not limits.still_time():
                answer = Unremovable(node=load.node, why=WhyStays.NOT_REACHED)
            if answer is None:
                tried += 1
                answer = candidacy.of(load, ready=node.ready)
            if isinstance(answer, Removable):
                removable.append(answer)
                floors.take(node, empty=empty)
                continue
            stays[load.node] = answer
            if lately is not None:
                refused[load.node] = self._memory.refused[load.node]
            elif answer.why is WhyStays.NO_PLACE:
                refused[load.node] = self._now, answer
        unremovable = tuple(stays[name] for name in sorted(stays))
        memory = DrainMemory(
            hints=self._promised | candidacy.places,
            older_hints=self._memory.hints,
            refused=refused,
            since=self._timers(removable, unremovable),
        )
        left = dict(self._budgets.left)
        return DrainPlan(removable=tuple(removable), unremovable=unremovable, budgets_left=left, memory=memory)

    def _timers(self, removable: Iterable[Removable], unremovable: Iterable[Unremovable]) -> dict[str, float]:
        """Since when nodes are candidates. Who was one and was not reached loses nothing by it."""
        before = self._memory.since
        known = [one.node for one in unremovable if one.why is WhyStays.NOT_REACHED]
        if before is None:
            known = [name for name in known if marked_since(self._nodes[name]) is not None]
        else:
            known = [name for name in known if name in before]
        names = (*(one.node for one in removable), *known)
        return candidates_since(names, before, self._nodes, now=self._now)

    def _lately(self, load: Load) -> Unremovable | None:
        """What was found of a node a moment ago: a pod that is still on it had no place."""
        known = self._memory.refused.get(load.node)
        if known is None or self._now - known[0] >= self._policy.recheck:
            return None
        return known[1] if any(pod.key == known[1].pod for pod in load.moving) else None

    def _floors(self, loads: list[Load]) -> Floors:
        pools, empty = self._facts.pools, dict[str, int]()
        for load in loads:
            pool = self._nodes[load.node].labels.get(PROVISIONER_LABEL, "")
            if pool in pools and not load.moving and not load.waited_for:
                empty[pool] = empty.get(pool, 0) + 1
        return Floors(pools, empty, nodes=len(self._nodes) - len(self._removing), least=self._facts.least_nodes)
