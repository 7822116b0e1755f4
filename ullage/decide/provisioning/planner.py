"""Plan of all pools at one moment: demand, then sizes, then one step for each pool."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeVar

from msgspec.structs import replace

from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.provisioning.demand import NO_BUDGET, FleetDemand, NodeDemand, find_demand, find_demand_in_steps
from ullage.decide.provisioning.node_offers import OPEN_COST, PLACE_COST, Pool, ScaleUpBlocked
from ullage.decide.provisioning.pending import TURN_COST, PodOrGang, is_pending
from ullage.decide.provisioning.pool_nodes import pool_nodes_in_steps, with_assumed
from ullage.decide.provisioning.pool_size import PoolSize, evaluate
from ullage.decide.provisioning.pool_step import PoolStep, PurchaseTerms, next_step
from ullage.decide.provisioning.silent_agents import with_silence
from ullage.model.instance import Instance
from ullage.model.pool_sighting import NOTHING_SEEN, Seen
from ullage.model.provisioner import FleetBudget, PoolNode, PoolThresholds, Provisioner
from ullage.model.stepper import STEP, StepMeter, Stepper, finish
from ullage.model.units import Instant, Seconds, after

T = TypeVar("T")

ROW_COST, DECIDE_COST = 0.000_000_5, 0.000_003
"""Modelled CPU seconds per node: of placing a pod of a new shape, and of the decision on a pool."""
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
    def wake_at(self) -> Instant | None:
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
    deletes_at: Mapping[str, Instant] = field(default_factory=dict)
    """Instant by pool before which its cloud is not asked to delete anything."""


def plan_fleet(engine: PlacementEngine, fleet: FleetFacts, pending: Iterable[PodOrGang], *, now: Instant) -> FleetPlan:
    """Decide on every pool at once. The snapshot is left unchanged."""
    return finish(plan_fleet_in_steps(engine, fleet, pending, now=now))


def plan_fleet_in_steps(
    engine: PlacementEngine,
    fleet: FleetFacts,
    pending: Iterable[PodOrGang],
    *,
    now: Instant,
    lifted: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Stepper[FleetPlan]:
    """Decide on every pool. The snapshot may change between steps; demand is searched for on one state of it.

    Each step that reads the snapshot does so inside `lifted`: without what is about to be freed.
    """
    meter, waiting, pools = StepMeter(), list(pending), list[Pool]()
    for one in sorted(fleet.provisioners, key=lambda one: one.name):
        drawing = pool_nodes_in_steps(
            one, fleet.instances, engine.snapshot, now=now, protected=fleet.protected, seen=fleet.seen
        )
        pools.append(Pool(provisioner=one, nodes=(yield from _inside(lifted, drawing))))
    pools = with_silence(pools)
    if meter.spend(Seconds(TURN_COST * len(waiting))):
        yield meter.take()
    demand = yield from _demand(engine, pools, waiting, fleet.budget, lifted, now)
    decided: dict[str, PoolPlan] = {}
    served = Counter(demand.chosen.values())
    for pool in pools:
        deletes_at = fleet.deletes_at.get(pool.name, 0.0)
        decided[pool.name] = _decided(pool, demand, served[pool.name], Instant(deletes_at), now)
        if meter.spend(Seconds(DECIDE_COST * len(pool.nodes))):
            yield meter.take()
    return FleetPlan(pools=decided, demand=demand)


def _demand(
    engine: PlacementEngine,
    pools: Sequence[Pool],
    pending: Sequence[PodOrGang],
    budget: FleetBudget,
    lifted: Callable[[], AbstractContextManager[None]],
    now: Instant,
) -> Stepper[FleetDemand]:
    """Demand. A search that takes longer than a step is made on a fork, in steps; a short one at once."""
    if search_cost(engine, pools, pending) < STEP:
        with lifted():
            return find_demand(engine, pools, pending, now=now, budget=budget)
    yield from engine.warm_up()
    yield Seconds(0.0)
    with lifted():
        fork = engine.fork()
    yield Seconds(0.0)  # the fork is a step of its own
    waiting = [turn for turn in pending if is_pending(turn, fork.snapshot)]
    yield Seconds(0.0)
    return (yield from find_demand_in_steps(fork, pools, waiting, now=now, budget=budget))


def search_cost(engine: PlacementEngine, pools: Sequence[Pool], pending: Sequence[PodOrGang]) -> Seconds:
    """Modelled CPU seconds of a search for demand: pods are placed, and upcoming nodes drawn."""
    drawn = sum(
        node.upcoming or node.silence_excused or node.marked_for_deletion for pool in pools for node in pool.nodes
    )
    return Seconds(len(pending) * (PLACE_COST + ROW_COST * engine.snapshot.columns.size) + drawn * OPEN_COST)


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


def _decided(pool: Pool, demand: FleetDemand, pending: int, deletes_at: Instant, now: Instant) -> PoolPlan:
    provisioner, wanted = pool.provisioner, demand.wanted.get(pool.name)
    nodes = with_assumed(pool.nodes, demand.assumed)
    count = 0 if wanted is None else wanted.count
    evaluation = evaluate(nodes, _thresholds(provisioner), wanted=count, allowed=count, pending=pending)
    buy = PurchaseTerms() if wanted is None else _buy(wanted, provisioner.thresholds.scale_up_batch, pending, now)
    step = next_step(provisioner, nodes, evaluation, now=now, buy=buy, deletes_at=deletes_at)
    return PoolPlan(provisioner=provisioner, nodes=nodes, evaluation=evaluation, step=step)


def _thresholds(provisioner: Provisioner) -> PoolThresholds:
    """Thresholds of a pool. With policy Drain utilization does not decide on its size: the drain loop shrinks it."""
    plain = provisioner.thresholds
    return replace(plain, min_utilization_percent=0) if provisioner.consolidation.drains else plain


def _buy(wanted: NodeDemand, batch: Seconds, pending: int, now: Instant) -> PurchaseTerms:
    """Terms of one purchase: one zone at a time, that with most nodes first.

    A pod created in the future means that our clock or the API server's is wrong: then the batch window is skipped.
    """
    zone = min(wanted.by_zone, key=lambda zone: (-wanted.by_zone[zone], zone))
    batched = batch > 0 and isfinite(wanted.oldest) and wanted.oldest <= now + CLOCKS_DIFFER
    return PurchaseTerms(
        not_before=after(wanted.oldest, batch) if batched else Instant(0.0),
        zone=zone,
        count=wanted.by_zone[zone],
        least=wanted.for_gangs.get(zone, 0),
        pending=pending,
    )
