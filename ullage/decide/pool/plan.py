"""All pools at one moment: demand, then sizes, then one step for each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from msgspec.structs import replace

from ullage.decide.pool.demand import NO_BUDGET, Demand, Turn, Wanted, find_demand
from ullage.decide.pool.evaluate import Evaluation, evaluate
from ullage.decide.pool.facts import pool_nodes, with_assumed
from ullage.decide.pool.market import Pool
from ullage.decide.pool.reconcile import Buy, Step, next_step
from ullage.decide.seat.deciding import Seating
from ullage.model.instance import Instance
from ullage.model.provisioner import FleetBudget, PoolNode, Provisioner, Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """What is decided on one pool."""

    provisioner: Provisioner
    nodes: tuple[PoolNode, ...]
    evaluation: Evaluation
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """What is decided on all of them, by name."""

    pools: Mapping[str, PoolPlan]
    demand: Demand

    @property
    def wake_at(self) -> float | None:
        """When to decide again even if nothing is heard."""
        moments = [plan.step.wake_at for plan in self.pools.values() if plan.step.wake_at is not None]
        return min(moments, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What exists beside the picture of the cluster."""

    provisioners: Sequence[Provisioner]
    instances: Sequence[Instance] = ()
    """Of all providers."""
    protected: frozenset[str] = frozenset()
    """Nodes nobody wants to lose."""
    budget: FleetBudget = NO_BUDGET


def plan_fleet(seating: Seating, fleet: Fleet, turns: Iterable[Turn], *, now: float) -> FleetPlan:
    """Decide on every pool. The picture is borrowed meanwhile, and given back as it was."""
    pools = [
        Pool(
            provisioner=one,
            nodes=pool_nodes(one, fleet.instances, seating.placements, now=now, protected=fleet.protected),
        )
        for one in sorted(fleet.provisioners, key=lambda one: one.name)
    ]
    demand = find_demand(seating, pools, turns, now=now, budget=fleet.budget)
    return FleetPlan(pools={pool.name: _decided(pool, demand, now) for pool in pools}, demand=demand)


def _decided(pool: Pool, demand: Demand, now: float) -> PoolPlan:
    provisioner, wanted = pool.provisioner, demand.wanted.get(pool.name)
    nodes = with_assumed(pool.nodes, demand.assumed)
    count = 0 if wanted is None else wanted.count
    evaluation = evaluate(nodes, _thresholds(provisioner), wanted=count, allowed=count)
    buy = Buy() if wanted is None else _buy(wanted, provisioner.thresholds.scale_up_batch)
    step = next_step(provisioner, nodes, evaluation, now=now, buy=buy)
    return PoolPlan(provisioner=provisioner, nodes=nodes, evaluation=evaluation, step=step)


def _thresholds(provisioner: Provisioner) -> Thresholds:
    """Where nodes are drained, how many are wanted is not a matter of how much of them is in use."""
    plain = provisioner.thresholds
    return replace(plain, min_utilization_percent=0) if provisioner.consolidation.drains else plain


def _buy(wanted: Wanted, batch: float) -> Buy:
    """One zone at a time, that with most nodes first: a purchase is in one place."""
    zone = min(wanted.by_zone, key=lambda zone: (-wanted.by_zone[zone], zone))
    return Buy(
        not_before=wanted.oldest + batch if batch and isfinite(wanted.oldest) else 0.0,
        zone=zone,
        count=wanted.by_zone[zone],
        least=wanted.for_gangs.get(zone, 0),
    )
