"""Drain planner: one run answers for every node and finds nodes that can all be removed together.

The snapshot is changed during the run, in a what-if of the caller.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np

from ullage.decide.draining.deletion_tracker import kept, still_missing
from ullage.decide.draining.destinations import DestinationSearch
from ullage.decide.draining.eligibility import (
    CPU,
    EligibilityContext,
    Shares,
    gpus_used,
    ineligible,
    is_draining,
    used_shares,
)
from ullage.decide.draining.inputs import FRESH, UNLIMITED, DrainInputs, DrainPlan, DrainPolicy, Limits, PlannerMemory
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.draining.relocation import NO_COST, Places, PodRelocator, is_on_its_way, place_pending
from ullage.decide.draining.removal_trial import GangMoves, PodsToMove, RemovalTrial, pods_to_move
from ullage.decide.draining.rules import Drainability, DrainabilityCache, DrainContext
from ullage.decide.draining.scope import MinSizeTracker
from ullage.decide.draining.unneeded import candidates_since, marked_since
from ullage.decide.scheduling.assignment import PodAssigner, waits
from ullage.model.device import MILLI_GPU
from ullage.model.draining import PASSING, RemovableNode, UnremovableNode, UnremovableReason
from ullage.model.pod import Pod
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.resources import GPU
from ullage.model.stepper import Stepper, finish
from ullage.model.units import Instant
from ullage.state.node_columns import NodeColumns

Key = tuple[int, int, int, float, int, int, str]


class TrialOrder:
    """Order of removal trials: empty nodes, then least disruption, then most expensive idle capacity, then name.

    Total, and the same in every loop as long as nothing changes.
    """

    def __init__(self, columns: NodeColumns, shares: Shares, prices: Mapping[str, int]) -> None:
        size = columns.size
        gpu, cpu = columns.resource(GPU), columns.resource(CPU)
        self._idle_gpus = np.maximum(columns.allocatable[gpu, :size] - gpus_used(columns), 0)
        self._idle_cpu = columns.free[cpu, :size].copy()
        self._rows = columns.rows
        self._shares = shares
        self._prices = prices

    def key(self, load: PodsToMove) -> Key:
        row = self._rows[load.node]
        idle_price = self._prices.get(load.node, 0) * max(1.0 - self._shares.item(row), 0.0)
        return (
            len(load.moving),
            len(load.waited_for),
            _gpus_held(load.moving),
            -idle_price,
            -self._idle_gpus.item(row),
            -self._idle_cpu.item(row),
            load.node,
        )


def _gpus_held(pods: Iterable[Pod]) -> int:
    """GPUs held by these pods, in thousandths: interrupting a pod with GPUs costs more than another."""
    held = 0
    for pod in pods:
        if pod.gpu_ids:
            held += len(pod.gpu_ids) * pod.gpu_share
        elif pod.shape.devices is not None:
            held += pod.shape.devices.count * MILLI_GPU
    return held


def plan_drain(
    assigner: PodAssigner,
    facts: DrainInputs,
    policy: DrainPolicy,
    memory: PlannerMemory = FRESH,
    limits: Limits = UNLIMITED,
    *,
    now: Instant,
) -> DrainPlan:
    """Plan removals at once: nodes that can be removed together now, and why the others stay."""
    with assigner.snapshot.what_if():
        return finish(plan_steps(assigner, facts, policy, memory, limits, now=now))


def plan_steps(
    assigner: PodAssigner,
    facts: DrainInputs,
    policy: DrainPolicy,
    memory: PlannerMemory = FRESH,
    limits: Limits = UNLIMITED,
    *,
    now: Instant,
) -> Stepper[DrainPlan]:
    """Plan removals in steps of one node or one pending pod. When time is over, no further node is tried.

    To be run inside a what-if: the snapshot is changed, and left so. Live loops plan on a fork that is dropped.
    """
    return (yield from _Planner(assigner, facts, policy, memory, now).steps(limits))


class _Planner:
    def __init__(
        self, assigner: PodAssigner, facts: DrainInputs, policy: DrainPolicy, memory: PlannerMemory, now: Instant
    ) -> None:
        self._assigner = assigner
        self._snapshot = snapshot = assigner.snapshot
        self._facts = facts
        self._policy = policy
        self._memory = memory
        self._now = now
        self._nodes = snapshot.state.nodes
        self._rows = snapshot.columns.rows
        self._removing = {name for name in facts.removing if name in self._nodes}
        self._removing |= {
            name for name, node in self._nodes.items() if is_draining(node) and name not in facts.resumable
        }
        self._budgets = RemainingPdbTracker(snapshot.state.budgets)
        vms = snapshot.vms.ledger if snapshot.vms.active else None
        context = DrainContext(
            policy.rules, self._budgets, facts.workloads, facts.workload_kinds, now, vms, facts.vm_starts
        )
        self._drainabilities = DrainabilityCache(context)
        self._reserved: Places = {}
        """Destinations of pods on nodes being removed, and of evicted pods without a replacement."""
        self._evicted = kept(facts.evictions, keep=policy.evictions_kept, now=now)

    def steps(self, limits: Limits) -> Stepper[DrainPlan]:
        # 1. pending pods are placed first
        yield from place_pending(self._assigner, now=self._now)
        destinations = DestinationSearch(self._assigner.engine, now=self._now)
        if self._facts.destinations is not None:
            destinations.limit_to(self._facts.destinations)
        evicted = [one.pod for one in self._evicted]
        relocator = PodRelocator(self._assigner.engine, destinations, self._memory, now=self._now, also=evicted)
        yield NO_COST
        # 2. pods on nodes that are being removed, and pods evicted lately
        for name in sorted(self._removing):
            destinations.close(self._rows[name])
            relocator.close_to_new_pods(name)
        problem = yield from self._unplaced(relocator)
        # 3. nodes to be tried, in order; the search for room begins with the other nodes
        stays, loads = yield from self._eligible()
        if problem is not None:
            reason, pod = problem
            stays |= {load.node: UnremovableNode(node=load.node, reason=reason, pod=pod.key) for load in loads}
            loads = []
        destinations.search_in(self._search_order(loads))
        # 4. removal trials, node by node
        gangs = GangMoves(self._assigner, self._drainabilities)
        trials = RemovalTrial(relocator, destinations, gangs, self._budgets, self._policy)
        trials.exclude(self._reserved | self._nominated())
        yield NO_COST
        return (yield from self._tried(loads, stays, trials, limits))

    def _nominated(self) -> Places:
        """Nominated nodes of pending pods."""
        pods = self._snapshot.state.pods.values()
        return {pod.key: pod.nominated for pod in pods if pod.nominated and waits(pod)}

    def _unplaced(self, relocator: PodRelocator) -> Stepper[tuple[UnremovableReason, Pod] | None]:
        """First pod on a node being removed, or evicted lately, that has no place any more."""
        for name in sorted(self._removing):
            here = self._snapshot.pods_on(name)
            leaving = [here[key] for key in sorted(here) if self._leaves(here[key])]
            self._budgets.charge([pod for pod in leaving if self._drainabilities.of(pod) is not Drainability.MIGRATE])
            places = relocator.move(leaving)
            if isinstance(places, Pod):
                return UnremovableReason.DRAINED_PODS_UNPLACED, places
            self._reserved |= places
            yield NO_COST
        missing = still_missing(self._evicted, self._facts.workloads, self._snapshot)
        places = relocator.move(missing)
        if isinstance(places, Pod):
            return UnremovableReason.EVICTED_PODS_UNPLACED, places
        self._reserved |= places
        yield NO_COST
        return None

    def _leaves(self, pod: Pod) -> bool:
        """True if a pod on a node being removed needs a place elsewhere."""
        if pod.deleting or pod.key not in self._snapshot.state.pods:
            return False
        if is_on_its_way(pod, self._snapshot):
            return False
        return self._drainabilities.of(pod) not in (Drainability.LEAVES_WITH_NODE, Drainability.SKIP)

    def _eligible(self) -> Stepper[tuple[dict[str, UnremovableNode], list[PodsToMove]]]:
        """Nodes that stay, and the pods of nodes to be tried, in order."""
        shares, too_much = used_shares(self._snapshot, self._policy, now=self._now)
        context = EligibilityContext(self._facts, self._policy, self._removing, shares, too_much.tolist(), self._rows)
        order = TrialOrder(self._snapshot.columns, shares, self._facts.prices)
        yield NO_COST
        stays: dict[str, UnremovableNode] = {}
        loads: list[tuple[Key, PodsToMove]] = []
        for name in sorted(self._nodes):
            problem = ineligible(self._nodes[name], context)
            if problem is None:
                load = pods_to_move(name, self._snapshot, self._drainabilities)
                problem = load.blocked
                if problem is None:
                    loads.append((order.key(load), load))
            if problem is not None:
                stays[name] = problem
            yield NO_COST
        loads.sort(key=lambda entry: entry[0])
        return stays, [load for _, load in loads]

    def _search_order(self, loads: list[PodsToMove]) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
        """Search order of destinations: nodes that are not tried, then tried nodes from the last to the first."""
        tried = [load.node for load in loads]
        others = sorted(self._nodes.keys() - set(tried), reverse=True)
        return np.array([self._rows[name] for name in chain(others, reversed(tried))], np.intp)

    def _tried(
        self, loads: list[PodsToMove], stays: dict[str, UnremovableNode], trials: RemovalTrial, limits: Limits
    ) -> Stepper[DrainPlan]:
        minimums, tried, in_time = self._minimums(loads), 0, True
        removable: list[RemovableNode] = []
        refused: dict[str, tuple[Instant, UnremovableNode]] = {}
        for load in loads:
            in_time = yield NO_COST
            node, empty = self._nodes[load.node], not load.moving and not load.waited_for
            lately = self._lately(load)
            answer: RemovableNode | UnremovableNode | None = minimums.reached(node, empty=empty) or lately
            if answer is None and limits.most_candidates is not None and len(removable) >= limits.most_candidates:
                answer = UnremovableNode(node=load.node, reason=UnremovableReason.CANDIDATE_LIMIT)
            if answer is None and tried >= limits.least_tried and not in_time:
                answer = UnremovableNode(node=load.node, reason=UnremovableReason.NOT_REACHED)
            if answer is None:
                tried += 1
                answer = trials.of(load, ready=node.ready)
            if isinstance(answer, RemovableNode):
                removable.append(answer)
                minimums.take(node, empty=empty)
                continue
            stays[load.node] = answer
            if lately is not None:
                refused[load.node] = self._memory.refused[load.node]
            elif answer.reason is UnremovableReason.NO_PLACE:
                refused[load.node] = self._now, answer
        yield NO_COST
        unremovable = tuple(stays[name] for name in sorted(stays))
        memory = PlannerMemory(
            hints=self._reserved | trials.places,
            older_hints=self._memory.hints,
            refused=refused,
            since=self._timers([*(one.node for one in removable), *trials.waiting_for_budget], unremovable),
        )
        left = dict(self._budgets.left)
        return DrainPlan(removable=tuple(removable), unremovable=unremovable, budgets_left=left, memory=memory)

    def _timers(self, unneeded: Iterable[str], unremovable: Iterable[UnremovableNode]) -> dict[str, Instant]:
        """Time each node became unneeded. A candidate that cannot go for a passing reason keeps its time.

        So does a node being removed: if its removal has to wait, it is due all the same.
        """
        before, going = self._memory.since, self._facts.removing
        known = [one.node for one in unremovable if one.reason in PASSING or one.node in going]
        if before is None:
            known = [name for name in known if marked_since(self._nodes[name]) is not None]
        else:
            known = [name for name in known if name in before]
        names = dict.fromkeys((*unneeded, *known))
        return candidates_since(names, before, self._nodes, now=self._now)

    def _lately(self, load: PodsToMove) -> UnremovableNode | None:
        """Answer of an earlier loop, if it is recent and the pod that had no place is still on the node."""
        known = self._memory.refused.get(load.node)
        if known is None or self._now - known[0] >= self._policy.recheck:
            return None
        return known[1] if any(pod.key == known[1].pod for pod in load.moving) else None

    def _minimums(self, loads: list[PodsToMove]) -> MinSizeTracker:
        pools, empty = self._facts.pools, dict[str, int]()
        for load in loads:
            pool = self._nodes[load.node].labels.get(PROVISIONER_LABEL, "")
            if pool in pools and not load.moving and not load.waited_for:
                empty[pool] = empty.get(pool, 0) + 1
        staying = [node for name, node in self._nodes.items() if name not in self._removing]
        return MinSizeTracker(pools, empty, staying, self._facts)
