"""Decision of one drain loop: build the planner's inputs, plan, choose due removals. Performs nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ullage.clock import Clock
from ullage.control.draining.settings import DrainingSettings
from ullage.decide.draining.estate import DrainScope, is_drained
from ullage.decide.draining.inputs import DrainInputs, DrainPlan, Limits, PlannerMemory
from ullage.decide.draining.ledger import NodeDeletionTracker
from ullage.decide.draining.node_lists import pod_destinations, scale_down_candidates
from ullage.decide.draining.parallelism import OngoingRemovals, PacingByPool, RemovalBatch, turns
from ullage.decide.draining.plan import plan_drain
from ullage.decide.draining.rules import next_given_up
from ullage.decide.draining.unneeded import RemovalPacing, marked_since
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.draining import WorkloadReplicas
from ullage.model.node import Node
from ullage.model.provisioner import Consolidation, Provisioner
from ullage.state.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Inputs of a decision beside the snapshot."""

    provisioners: Sequence[Provisioner]
    estate: DrainScope
    ledger: NodeDeletionTracker
    left: frozenset[str]
    """Nodes with the draining taint and no removal under way: an earlier process began it."""
    workloads: Mapping[str, WorkloadReplicas]
    workload_kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class DrainDecision:
    """Plan and due removals of one loop."""

    plan: DrainPlan
    turns: RemovalBatch
    estate: DrainScope
    memory: PlannerMemory
    """For the next loop."""
    wake_at: float | None = None
    """Time at which the decision may change without an event."""


def decide(
    assigner: PodAssigner, known: Known, memory: PlannerMemory, settings: DrainingSettings, clock: Clock
) -> DrainDecision:
    """Plan, and choose due removals. The steady clock bounds the search; simulated time stands still meanwhile."""
    now, nodes = clock.now(), assigner.placements.state.nodes
    pools = {one.name: one.consolidation for one in known.provisioners if is_drained(one)}
    policy = replace(settings.policy, pools_used_milli={name: one.used_milli for name, one in pools.items()})
    until = clock.steady() + settings.plan_seconds
    limits = Limits(still_time=lambda: clock.steady() < until, least_tried=settings.least_tried)
    plan = plan_drain(assigner, _facts(known, settings, nodes), policy, memory, limits, now=now)
    since = {**(plan.memory.since or {}), **_unheard_timers(known.estate, assigner.placements)}
    begun = OngoingRemovals(going=tuple(known.ledger.going.values()), left=known.left)
    found = turns(plan.removable, since, nodes, begun, _paces(pools, settings), now=now)
    moments = (found.wake_at, next_given_up(assigner.placements.pods.values(), now=now))
    wake_at = min((moment for moment in moments if moment is not None), default=None)
    return DrainDecision(plan, found, known.estate, replace(plan.memory, since=since), wake_at)


def _facts(known: Known, settings: DrainingSettings, nodes: Mapping[str, Node]) -> DrainInputs:
    return DrainInputs(
        candidates=scale_down_candidates(settings.node_filters, nodes, known.estate.candidates),
        destinations=pod_destinations(settings.node_filters, nodes),
        removing=known.ledger.busy,
        resumable=known.left,
        failed=known.ledger.failed(),
        pools=known.estate.floors,
        least_nodes=settings.least_nodes,
        least_resources=settings.least_resources,
        workloads=known.workloads,
        workload_kinds=known.workload_kinds,
        evictions=known.ledger.evictions,
        prices=known.estate.prices,
    )


def _paces(pools: Mapping[str, Consolidation], settings: DrainingSettings) -> PacingByPool:
    own = {
        name: RemovalPacing(
            unneeded=one.unneeded, unready=one.unready, most_at_once=one.most_at_once, most_drains=one.most_drains
        )
        for name, one in pools.items()
    }
    others = RemovalPacing(
        unneeded=settings.unneeded,
        unready=settings.unready,
        most_at_once=settings.most_at_once,
        most_drains=settings.most_drains,
    )
    return PacingByPool(pools=own, others=others, most_at_once=settings.most_at_once, most_drains=settings.most_drains)


def _unheard_timers(estate: DrainScope, placements: ClusterSnapshot) -> dict[str, float]:
    """Timers from soft taints, for nodes of pools whose provider has not been listed yet."""
    nodes = placements.state.nodes
    marked = {name: marked_since(nodes[name]) for name in sorted(estate.unheard) if name in nodes}
    return {name: since for name, since in marked.items() if since is not None}
