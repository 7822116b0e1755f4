"""Drain plans for `plan drain` and `explain`: of the cluster as it is, and of copies on which an advice is tried."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ullage.decide.draining.eligibility import under_removal
from ullage.decide.draining.inputs import DrainInputs, DrainPlan, DrainPolicy, PoolMinimum
from ullage.decide.draining.planner import plan_drain
from ullage.decide.draining.scope import least_size
from ullage.decide.provisioning.pool_nodes import machines_of_nodes, pool_nodes
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.fact_event import ObjectKey
from ullage.model.provisioner import PROVISIONER_LABEL, Provisioner
from ullage.model.scoring import DEFAULT_POLICY
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainTrials:
    """Maker of drain plans, all by the same rules and for the same instant."""

    now: Instant
    facts: DrainInputs = field(default_factory=DrainInputs)
    """Facts beside pools and prices, which are those of the pools of each plan."""
    rules: DrainPolicy = field(default_factory=DrainPolicy)
    own_thresholds: bool = True
    """Pools that are drained have their own threshold of use."""
    packing: str = DEFAULT_POLICY
    """Policy that destinations are chosen by."""
    unreadable_claims: Mapping[ObjectKey, str] = field(default_factory=dict)

    def plan(
        self, snapshot: ClusterSnapshot, pools: Sequence[Provisioner], among: Collection[str] | None = None
    ) -> DrainPlan:
        """Plan removals, of nodes in `among` only if that is given. The snapshot is as before afterwards."""
        assigner = PodAssigner(snapshot, self.packing, self.unreadable_claims)
        facts = replace(
            self.facts, pools=_pool_minimums(snapshot, pools, now=self.now), prices=_prices(snapshot, pools)
        )
        facts = facts if among is None else replace(facts, candidates=among)
        return plan_drain(assigner, facts, self._policy(pools), now=self.now)

    def _policy(self, pools: Sequence[Provisioner]) -> DrainPolicy:
        if not self.own_thresholds:
            return self.rules
        drained = (one for one in pools if one.consolidation.drains)
        return replace(self.rules, pools_used_milli={one.name: one.consolidation.used_milli for one in drained})


def _pool_minimums(snapshot: ClusterSnapshot, pools: Sequence[Provisioner], *, now: Instant) -> dict[str, PoolMinimum]:
    """Least size of each pool, by name, with the number of its nodes that stay."""
    staying = [
        node.labels.get(PROVISIONER_LABEL, "") for node in snapshot.state.nodes.values() if not under_removal(node)
    ]
    machines = machines_of_nodes(pools, snapshot)
    return {
        one.name: PoolMinimum(
            nodes=staying.count(one.name),
            least=least_size(one, pool_nodes(one, machines, snapshot, now=now)),
            least_empty=one.thresholds.min_unutilized_nodes,
        )
        for one in pools
    }


def _prices(snapshot: ClusterSnapshot, pools: Sequence[Provisioner]) -> dict[str, int]:
    """Price by node, of nodes that belong to a pool."""
    price = {one.name: one.template.price for one in pools}
    pool_of = {name: node.labels.get(PROVISIONER_LABEL, "") for name, node in snapshot.state.nodes.items()}
    return {node: price[pool] for node, pool in pool_of.items() if pool in price}
