"""Plan of all pools at one moment: demand, then sizes, then one step for each pool."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeVar

from msgspec.structs import replace

from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.provisioning.demand import NO_BUDGET, FleetDemand, NodeDemand, PodOrGang, find_demand, is_pending
from ullage.decide.provisioning.node_offers import Pool, ScaleUpBlocked
from ullage.decide.provisioning.pool_nodes import pool_nodes_in_steps, with_assumed
from ullage.decide.provisioning.pool_size import PoolSize, evaluate
from ullage.decide.provisioning.pool_step import PoolStep, PurchaseTerms, next_step
from ullage.decide.provisioning.silent_agents import with_silence
from ullage.model.instance import Instance
from ullage.model.pool_sighting import NOTHING_SEEN, Seen
from ullage.model.provisioner import FleetBudget, PoolNode, PoolThresholds, Provisioner
from ullage.model.stepper import StepMeter, Stepper, finish

T = TypeVar("T")

TURN_COST, DEMAND_COST = 0.000_005, 0.000_01
"""Modelled CPU seconds of reading one pending pod, and of its part in the search for nodes."""
CLOCKS_DIFFER = 5.0
"""Seconds by which our clock and the API server's may differ without being wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """Decision on one pool."""

    provisioner: Provisioner
    nodes: tuple[PoolNode, ...]
    evaluation: PoolSize
    step: PoolStep


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """Decisions on all pools, by name."""

    pools: Mapping[str, PoolPlan]
    demand: FleetDemand

    def unmet_by(self, pool: str) -> int:
        """Number of pods no pool serves that this pool may not buy for, because it may not buy at all."""
        said = [refusals.get(pool) for refusals in self.demand.unmet.values()]
        return sum(isinstance(why, ScaleUpBlocked) and why is not ScaleUpBlocked.NOT_FOR_VMS for why in said)

    @property
    def wake_at(self) -> float | None:
        """Instant of the next plan if no event comes first; None where there is no deadline."""
        moments = [plan.step.wake_at for plan in self.pools.values() if plan.step.wake_at is not None]
        return min(moments, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """Facts beside the cluster snapshot."""

    provisioners: Sequence[Provisioner]
    instances: Sequence[Instance] = ()
    """Instances of all providers."""
    protected: frozenset[str] = frozenset()
    """Nodes that must not be removed."""
    budget: FleetBudget = NO_BUDGET
    seen: Seen = NOTHING_SEEN
    """Observed durations, by the monotonic clock."""
    leaving: frozenset[str] = frozenset()
    """Uids of pods that are gone and whose Leases are about to be freed."""
    deletes_at: Mapping[str, float] = field(default_factory=dict)
    """Instant by pool before which its cloud is not asked to delete anything."""


def plan_fleet(engine: PlacementEngine, fleet: FleetFacts, pending: Iterable[PodOrGang], *, now: float) -> FleetPlan:
    """Decide on every pool at once. The snapshot is left unchanged."""
    return finish(plan_fleet_in_steps(engine, fleet, pending, now=now))


def plan_fleet_in_steps(
    engine: PlacementEngine,
    fleet: FleetFacts,
    pending: Iterable[PodOrGang],
    *,
    now: float,
    lifted: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Stepper[FleetPlan]:
    """Decide on every pool. The snapshot may change between steps; demand is searched for in the last, in one piece.

    Each step that reads the snapshot does so inside `lifted`: without what is about to be freed.
    """
    meter, waiting, pools = StepMeter(), list[PodOrGang](), list[Pool]()
    for turn in pending:
        waiting.append(turn)
        if meter.spend(TURN_COST):
            yield meter.take()
    for one in sorted(fleet.provisioners, key=lambda one: one.name):
        drawing = pool_nodes_in_steps(
            one, fleet.instances, engine.snapshot, now=now, protected=fleet.protected, seen=fleet.seen
        )
        pools.append(Pool(provisioner=one, nodes=(yield from _inside(lifted, drawing))))
    pools = with_silence(pools)
    waiting = [turn for turn in waiting if is_pending(turn, engine.snapshot)]
    if meter.spend(TURN_COST * len(waiting)):
        yield meter.take()
    with lifted():
        demand = find_demand(engine, pools, waiting, now=now, budget=fleet.budget)
    if meter.spend(DEMAND_COST * len(waiting)):
        yield meter.take()
    decided = {pool.name: _decided(pool, demand, fleet.deletes_at.get(pool.name, 0.0), now) for pool in pools}
    return FleetPlan(pools=decided, demand=demand)


def _inside(lifted: Callable[[], AbstractContextManager[None]], steps: Stepper[T]) -> Stepper[T]:
    """Steps, each of them made inside the context, which never lives across a pause."""
    more: bool | None = None
    try:
        while True:
            with lifted():
                cost = next(steps) if more is None else steps.send(more)
            more = yield cost
    except StopIteration as done:
        result: T = done.value
        return result


def _decided(pool: Pool, demand: FleetDemand, deletes_at: float, now: float) -> PoolPlan:
    provisioner, wanted = pool.provisioner, demand.wanted.get(pool.name)
    nodes = with_assumed(pool.nodes, demand.assumed)
    count = 0 if wanted is None else wanted.count
    pending = sum(name == pool.name for name in demand.chosen.values())
    evaluation = evaluate(nodes, _thresholds(provisioner), wanted=count, allowed=count, pending=pending)
    buy = PurchaseTerms() if wanted is None else _buy(wanted, provisioner.thresholds.scale_up_batch, pending, now)
    step = next_step(provisioner, nodes, evaluation, now=now, buy=buy, deletes_at=deletes_at)
    return PoolPlan(provisioner=provisioner, nodes=nodes, evaluation=evaluation, step=step)


def _thresholds(provisioner: Provisioner) -> PoolThresholds:
    """Thresholds of a pool. With policy Drain utilization does not decide on its size: the drain loop shrinks it."""
    plain = provisioner.thresholds
    return replace(plain, min_utilization_percent=0) if provisioner.consolidation.drains else plain


def _buy(wanted: NodeDemand, batch: float, pending: int, now: float) -> PurchaseTerms:
    """Terms of one purchase: one zone at a time, that with most nodes first.

    A pod created in the future means that our clock or the API server's is wrong: then the batch window is skipped.
    """
    zone = min(wanted.by_zone, key=lambda zone: (-wanted.by_zone[zone], zone))
    batched = batch > 0 and isfinite(wanted.oldest) and wanted.oldest <= now + CLOCKS_DIFFER
    return PurchaseTerms(
        not_before=wanted.oldest + batch if batched else 0.0,
        zone=zone,
        count=wanted.by_zone[zone],
        least=wanted.for_gangs.get(zone, 0),
        pending=pending,
    )
