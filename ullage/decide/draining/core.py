"""DrainCore: unneeded timers, removals under way and recent evictions. Plans, and settles outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

import msgspec

from ullage.config.settings import DrainingSettings
from ullage.config.vms import VmSettings
from ullage.decide.draining.deletion_tracker import NodeDeletionTracker, WorkloadIndex, behind, missing_at_start
from ullage.decide.draining.eligibility import is_draining
from ullage.decide.draining.inputs import (
    FRESH,
    DrainInputs,
    DrainPlan,
    DrainPolicy,
    Limits,
    NodeListFilter,
    RemovalPacing,
    least_resources,
    node_filters,
    pod_destinations,
    scale_down_candidates,
)
from ullage.decide.draining.parallelism import OngoingRemovals, PacingByPool, RemovalBatch, crop_to_limits, pool_of
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.draining.planner import plan_steps
from ullage.decide.draining.relocation import NO_COST, DisplacedPods, unplaceable_pods
from ullage.decide.draining.rules import DrainContext, next_overdue, next_rested
from ullage.decide.draining.scope import DrainScope, ScopeInputs, drain_scope_in_steps, is_drained
from ullage.decide.draining.unneeded import marked_since, soft_taints, with_clock_set, without_timer
from ullage.decide.gang.membership import gang_members, gang_of
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.decide.vms.rest import MigrationStarts
from ullage.model.device import Inventory
from ullage.model.draining import CANDIDATE_TAINT
from ullage.model.fact_event import FactEvent, ObjectKey, Synced, Updated
from ullage.model.intents import DrainIntent, RemoveNode
from ullage.model.node import Node
from ullage.model.outcomes import NodeNotRemoved, NodeRemoved, PodEvicted, RemovalFailure
from ullage.model.pod import Pod
from ullage.model.provisioner import Consolidation, Provisioner
from ullage.model.removal_plan import RemovalPlan
from ullage.model.stepper import Stepper, finish
from ullage.model.units import Instant, Seconds, Steady, after
from ullage.state.snapshot import ClusterSnapshot

MODELLED_PLAN, MODELLED_NODE = 0.005, 0.0002
"""CPU seconds of a plan in simulated time: fixed, and per node."""
_VMS = VmSettings()
LIST_AGAIN = Seconds(10.0)
"""Seconds between loops while a cloud has not listed its instances."""


@dataclass(frozen=True, slots=True)
class DrainDecision:
    """Plan and due removals of one loop."""

    plan: DrainPlan
    batch: RemovalBatch
    scope: DrainScope
    removals: tuple[RemovalPlan, ...] = ()
    """Due removals with what the snapshot assumed of them."""
    wake_at: Instant | None = None
    """Time at which the decision may change without an event."""


@dataclass(frozen=True, slots=True)
class UnplaceablePods:
    """Pods of nodes being removed that fit on no other node any more."""

    nodes: frozenset[str] = frozenset()
    """Nodes that were asked about."""
    by_node: Mapping[str, ObjectKey] = field(default_factory=dict)


class DrainCore:
    """State of draining between loops. Everything but `observe`, `plan` and `settle` only reads."""

    def __init__(
        self,
        assigner: PodAssigner,
        settings: DrainingSettings,
        filters: Sequence[NodeListFilter] = (),
        vms: VmSettings = _VMS,
    ) -> None:
        """`assigner`: of this process, which plans fork. `filters`: further ones, after the labels of the settings."""
        self.workloads = WorkloadIndex()
        self.tracker = NodeDeletionTracker(evictions_kept=settings.recent_eviction_window)
        self.decided: DrainDecision | None = None
        """Last decision; None while nothing could be removed."""
        self.snapshot: ClusterSnapshot = assigner.snapshot
        self._assigner = assigner
        self._settings = settings
        self._policy = DrainPolicy.of(settings, vms)
        self._filters = tuple(filters)
        self._memory = FRESH
        self._failed_meanwhile: set[str] = set()
        """Nodes whose removal failed while a plan was made: the plan does not know that their timers start anew."""
        self._vm_starts = MigrationStarts()
        self._observed_at = float("-inf")

    def configure(self, settings: DrainingSettings, vms: VmSettings = _VMS) -> None:
        """Take over changed settings. Timers go on: a node is as long unneeded as it was."""
        self._settings, self._policy = settings, DrainPolicy.of(settings, vms)
        self.tracker.kept = settings.recent_eviction_window

    @property
    def node_filters(self) -> Sequence[NodeListFilter]:
        """Filters of candidates and destinations, in order."""
        return (*node_filters(self._settings), *self._filters)

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self.snapshot.state.nodes

    @property
    def abandoned(self) -> frozenset[str]:
        """Nodes with the draining taint and no removal or cleanup under way: an earlier process began it."""
        return frozenset(name for name, node in self._tainted.items() if is_draining(node)) - self.tracker.busy

    @property
    def unneeded_since(self) -> Mapping[str, Instant]:
        """Time each candidate became one."""
        return self._memory.since or {}

    def observe(self, event: FactEvent[Any], *, now: Instant) -> bool:
        """Apply one fact event, after the snapshot has changed. True if a plan could change."""
        self.workloads.apply(event)
        if not can_change_plan(event):
            return False
        self._observed_at = now
        return True

    def start(self, *, now: Instant) -> None:
        """Restore recent evictions of earlier processes, once all facts have been observed."""
        self.tracker.restore(missing_at_start(self.workloads.by_uid, self.snapshot), at=now)

    def clock_was_set(self, by: Seconds) -> None:
        """Shift all timers after the clock was set by so many seconds: elapsed times stay the same."""
        self._memory = with_clock_set(self._memory, by)
        self.tracker.clock_was_set(by)

    def scope(self, inputs: ScopeInputs, *, now: Instant) -> DrainScope:
        """Drop entries that are over, and compute the drain scope at once."""
        return finish(self.scope_in_steps(inputs, now=now))

    def scope_in_steps(self, inputs: ScopeInputs, *, now: Instant) -> Stepper[DrainScope]:
        """`scope`, in steps."""
        unnoticed = behind(self.tracker.evictions, self.workloads.by_uid, self.snapshot)
        self.tracker.forget(self.nodes, unnoticed=unnoticed, now=now)
        found = yield from drain_scope_in_steps(inputs, self.snapshot, removing=self.tracker.busy, now=now)
        yield NO_COST  # a plan forks first: that is a long step, and begins a slice
        return found

    def has_work(self, scope: DrainScope) -> bool:
        """True if anything could be removed, untainted or resumed."""
        return bool(
            scope.candidates or scope.unlisted or self.abandoned or self.tracker.busy or self._has_soft_taints()
        )

    def rest(self) -> None:
        """Forget plan and timers: there is nothing to remove."""
        self.decided = None
        self._memory = FRESH

    def warm_up(self) -> Stepper[None]:
        """Bring the process's engine up to date in steps, so that the fork of a plan has little to compute."""
        return self._assigner.engine.warm_up()

    def plan(self, provisioners: Sequence[Provisioner], scope: DrainScope, *, now: Instant) -> Stepper[DrainDecision]:
        """Plan on a fork of the snapshot, and choose due removals. Events and outcomes may come between steps."""
        self._failed_meanwhile.clear()
        self._vm_starts.keep(self.snapshot.vms.ledger.vms())
        pools = {one.name: one.consolidation for one in provisioners if is_drained(one)}
        used = {name: one.used_milli for name, one in pools.items()}
        policy = replace(self._policy, pools_used_milli=used)
        limits = Limits(least_tried=self._settings.min_nodes_evaluated)
        abandoned = self.abandoned
        inputs = self._inputs(scope, abandoned)
        assigner = self._assigner.fork()
        yield NO_COST
        with assigner.snapshot.what_if() as trial:
            trial.keep()  # the fork is dropped: to undo everything would cost as much as it took
            plan = yield from plan_steps(assigner, inputs, policy, self._memory, limits, now=now)
        yield NO_COST
        nodes, pods = assigner.snapshot.state.nodes, assigner.snapshot.pods
        since = {**(plan.memory.since or {}), **_timers_of_unlisted(scope, nodes)}
        begun = OngoingRemovals(going=tuple(self.tracker.going.values()), left=abandoned)
        batch = crop_to_limits(plan.removable, since, nodes, begun, self._pacing(pools), now=now)
        deadlines = [batch.wake_at, next_overdue(pods.values(), now=now)]
        if self.snapshot.vms.active:
            deadlines.append(next_rested(self.snapshot.vms.ledger, policy.rules.vm_rest, self._vm_starts, now=now))
        wake_at = min((deadline for deadline in deadlines if deadline is not None), default=None)
        removals = tuple(removal_plan(action, assigner) for action in batch.removals)
        self._memory = replace(plan.memory, since=since)
        for node in self._failed_meanwhile:
            self._memory = without_timer(self._memory, node)
        self.decided = DrainDecision(plan, batch, scope, removals, wake_at)
        yield Seconds(MODELLED_PLAN + MODELLED_NODE * len(nodes))
        return self.decided

    def soft_taints(self, leave: frozenset[str]) -> Sequence[DrainIntent]:
        """Soft taints to write and to remove now. Nodes in `leave`, and nodes being removed, are not touched."""
        leave |= self.tracker.busy
        return soft_taints(self.unneeded_since, self.nodes, leave=leave, most=self._settings.max_soft_taints_per_loop)

    def begin(self, plan: RemovalPlan) -> None:
        """Record that a removal begins."""
        self.tracker.begin(plan, pool_of(self.nodes.get(plan.node)))

    def context(self, *, now: Instant) -> DrainContext:
        """Current inputs of the drain rules."""
        budgets = RemainingPdbTracker(self.snapshot.state.budgets)
        rules, known = self._policy.rules, self.workloads
        vms = self.snapshot.vms
        ledger = vms.ledger if vms.active else None
        return DrainContext(rules, budgets, known.by_uid, known.kinds, now, ledger, self._vm_starts)

    def unplaceable(self, *, now: Instant) -> Stepper[UnplaceablePods]:
        """Pods of nodes being removed that fit on no other node any more, by the snapshot when it is forked."""
        yield from self._assigner.engine.warm_up()
        yield NO_COST
        plans = self.tracker.plans
        leaving = DisplacedPods(
            nodes={name: one.pods for name, one in plans.items()},
            evictions=self.tracker.evictions,
            workloads=self.workloads.by_uid,
            destinations=pod_destinations(self.node_filters, self.nodes),
        )
        assigner = self._assigner.fork()
        yield NO_COST
        with assigner.snapshot.what_if() as trial:
            trial.keep()  # the fork is dropped
            found = yield from unplaceable_pods(assigner, leaving, now=now)
        return UnplaceablePods(frozenset(leaving.nodes), found)

    def settle(self, outcome: PodEvicted | NodeRemoved | NodeNotRemoved, *, now: Instant, steady: Steady) -> None:
        """Record an outcome."""
        match outcome:
            case PodEvicted(pod=pod):
                self.tracker.evicted(pod, at=now)
            case NodeRemoved():
                self.tracker.end(outcome.intent.node)
            case NodeNotRemoved():
                self._settle_failure(outcome, now=now, steady=steady)
            case _:
                assert_never(outcome)

    def next_deadline(self, *, now: Instant) -> Instant | None:
        """Time at which the next loop is due without an event."""
        deadlines = [self.tracker.next_deadline()]
        if self.decided is not None:
            deadlines.append(self.decided.wake_at)
            # A node refused on all that is known is refused again until an event comes.
            recheck, refused = self._policy.recheck, self._memory.refused.values()
            deadlines += [after(at, recheck) for at, _ in refused if at <= self._observed_at]
            deadlines.append(after(now, LIST_AGAIN) if self.decided.scope.unlisted else None)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _settle_failure(self, outcome: NodeNotRemoved, *, now: Instant, steady: Steady) -> None:
        node = outcome.intent.node
        self.tracker.end(node)
        if not outcome.waits_for_budget:
            until = now + self._settings.scale_down_delay_after_failure
            self.tracker.fail(node, f"{outcome.failure.value}: {outcome.detail}", until=Instant(until))
            self._memory = without_timer(self._memory, node)
            self._failed_meanwhile.add(node)
        if outcome.failure is RemovalFailure.CLOUD_FAILED:
            self.tracker.machine_unknown(node, since=steady)

    @property
    def _tainted(self) -> Mapping[str, Node]:
        return self.snapshot.state.tainted_nodes

    def _has_soft_taints(self) -> bool:
        return any(taint.key == CANDIDATE_TAINT for node in self._tainted.values() for taint in node.taints)

    def _inputs(self, scope: DrainScope, abandoned: frozenset[str]) -> DrainInputs:
        settings = self._settings
        return DrainInputs(
            candidates=scale_down_candidates(self.node_filters, self.nodes, scope.candidates),
            destinations=pod_destinations(self.node_filters, self.nodes),
            removing=self.tracker.busy,
            resumable=abandoned,
            failed=self.tracker.failed(),
            pools=scope.minimums,
            least_nodes=settings.min_nodes_total,
            least_resources=least_resources(settings),
            workloads=self.workloads.by_uid,
            workload_kinds=self.workloads.kinds,
            evictions=self.tracker.evictions,
            prices=scope.prices,
            vm_starts=self._vm_starts,
        )

    def _pacing(self, pools: Mapping[str, Consolidation]) -> PacingByPool:
        others = RemovalPacing.of(self._settings)
        own = {
            name: RemovalPacing(
                unneeded=one.unneeded, unready=one.unready, most_at_once=one.most_at_once, most_drains=one.most_drains
            )
            for name, one in pools.items()
        }
        return PacingByPool(pools=own, others=others, most_at_once=others.most_at_once, most_drains=others.most_drains)


def _timers_of_unlisted(scope: DrainScope, nodes: Mapping[str, Node]) -> dict[str, Instant]:
    """Timers from soft taints, for nodes of pools whose provider has not been listed yet."""
    marked = {name: marked_since(nodes[name]) for name in sorted(scope.unlisted) if name in nodes}
    return {name: since for name, since in marked.items() if since is not None}


def can_change_plan(event: FactEvent[Any]) -> bool:
    """True if a plan could change. Writes that change only a version or the time of a report cannot change one."""
    if isinstance(event, Synced):
        return False
    if not isinstance(event, Updated):
        return True
    old, new = event.old, event.new
    if isinstance(old, Pod) and isinstance(new, Pod):
        return msgspec.structs.replace(old, resource_version=new.resource_version) != new
    if isinstance(old, Inventory) and isinstance(new, Inventory):
        same_time = {"reported_at": new.reported_at, "dated": new.dated, "clock_ahead": new.clock_ahead}
        return msgspec.structs.replace(old, **same_time) != new
    return bool(old != new)


def removal_plan(action: RemoveNode, assigner: PodAssigner) -> RemovalPlan:
    """Build the removal plan of an action. To be called before the snapshot changes."""
    state = assigner.snapshot.state
    node = state.nodes[action.node]
    pods = {move.pod: state.pods[move.pod].uid for move in action.evict if move.pod in state.pods}
    return RemovalPlan(
        intent=action,
        uid=node.uid,
        pods=pods,
        gangs=_whole_gangs(pods, assigner),
        has_vms=any(state.pods[pod].vm is not None for pod in pods),
        owned=bool(pool_of(node)),
    )


def _whole_gangs(pods: dict[ObjectKey, str], assigner: PodAssigner) -> dict[ObjectKey, tuple[ObjectKey, ...]]:
    """Gangs whose members that hold room all leave, with those members."""
    state, held = assigner.snapshot.state, assigner.snapshot.pods
    claiming = [state.pods[key] for key in sorted(pods) if state.pods[key].claim or state.pods[key].claim_template]
    found: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
    gangs = (gang_of(pod, state) for pod in claiming)
    for gang in dict.fromkeys(one for one in gangs if one is not None):
        members = [pod.key for pod in gang_members(gang, state) if pod.key in held and not pod.deleting]
        if all(member in pods for member in members):
            found[gang] = tuple(members)
    return found
