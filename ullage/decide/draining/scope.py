"""Drain scope: candidate nodes and minimum sizes, from NodeProvisioners, instances and the snapshot."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ullage.decide.draining.eligibility import CONTROL_PLANE
from ullage.decide.draining.inputs import DrainInputs, PoolMinimum
from ullage.decide.provisioning.pool_nodes import pool_nodes_in_steps
from ullage.decide.provisioning.pool_size import size_in_use
from ullage.model.draining import CANDIDATE_TAINT, UnremovableNode, UnremovableReason
from ullage.model.instance import Instance, InstanceState
from ullage.model.node import Node
from ullage.model.provisioner import PROVISIONER_LABEL, PoolNode, Provisioner
from ullage.model.resources import GIB, MILLI
from ullage.model.stepper import Stepper, finish
from ullage.model.units import Instant, Seconds
from ullage.state.snapshot import ClusterSnapshot

KARPENTER_LABEL = "karpenter.sh/nodepool"
"""Label of nodes that Karpenter removes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeInputs:
    """Owners of nodes: provisioners, and the instances their clouds list."""

    provisioners: Sequence[Provisioner] = ()
    instances: Sequence[Instance] = ()
    """Of all providers, with the names of their nodes."""
    listed: Collection[str] = ()
    """Providers whose instances have been listed."""
    unmanaged: bool = False
    """Nodes of no NodeProvisioner are candidates, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainScope:
    """Nodes that may be drained now, and the minimum size of each pool."""

    candidates: frozenset[str] = frozenset()
    minimums: Mapping[str, PoolMinimum]
    prices: Mapping[str, int]
    """Price by node, in millionths per hour."""
    machines: Mapping[str, Instance]
    """Instance by node, for all instances that have a node and are not stopping."""
    unlisted: frozenset[str] = frozenset()
    """Nodes of pools whose provider has not been listed yet: their instances are unknown."""


def is_drained(provisioner: Provisioner) -> bool:
    """True if draining removes nodes of this pool. A pool that is paused or only recommends is not drained."""
    thresholds = provisioner.thresholds
    return provisioner.consolidation.drains and not (thresholds.paused or thresholds.recommend_only)


def drain_scope(
    owners: ScopeInputs, snapshot: ClusterSnapshot, *, removing: Collection[str], now: Instant
) -> DrainScope:
    """Compute the drain scope at once. Nodes in `removing` count as gone."""
    return finish(drain_scope_in_steps(owners, snapshot, removing=removing, now=now))


def drain_scope_in_steps(
    owners: ScopeInputs, snapshot: ClusterSnapshot, *, removing: Collection[str], now: Instant
) -> Stepper[DrainScope]:
    """Compute the drain scope in steps. A node may go between them: a plan looks only at candidates that are there."""
    candidates: set[str] = set()
    unlisted: set[str] = set()
    minimums: dict[str, PoolMinimum] = {}
    prices: dict[str, int] = {}
    for one in owners.provisioners:
        if not is_drained(one):
            continue
        drawn = yield from pool_nodes_in_steps(one, owners.instances, snapshot, now=now)
        yield Seconds(0.0)
        nodes = [_here_before(node, snapshot) for node in drawn]
        here = [node for node in nodes if node.registered]
        if one.provider not in owners.listed:
            unlisted.update(node.name for node in here)
            continue
        candidates.update(
            node.name for node in here if node.instance and not (node.upcoming or node.failed_to_register)
        )
        minimums[one.name] = _minimum(one, nodes, removing)
        prices.update(dict.fromkeys((node.name for node in here), one.template.price))
    if owners.unmanaged:
        candidates.update(name for name, node in snapshot.state.nodes.items() if is_unmanaged(node))
    machines = {one.node: one for one in owners.instances if one.node and one.state is not InstanceState.STOPPING}
    return DrainScope(
        candidates=frozenset(candidates),
        minimums=minimums,
        prices=prices,
        machines=machines,
        unlisted=frozenset(unlisted),
    )


def _here_before(node: PoolNode, snapshot: ClusterSnapshot) -> PoolNode:
    """The same node, no longer upcoming if it has the soft taint: an unready node that was a candidate stays one."""
    known = snapshot.state.nodes.get(node.name)
    if not node.upcoming or known is None or not any(taint.key == CANDIDATE_TAINT for taint in known.taints):
        return node
    return replace(node, upcoming=False)


def is_unmanaged(node: Node) -> bool:
    """True if the node is of no pool, not Karpenter's, not the control plane's, and not cordoned.

    A cordoned node is left to its owner. That includes nodes which draining emptied and cordoned.
    """
    taken = (PROVISIONER_LABEL, KARPENTER_LABEL, *CONTROL_PLANE)
    return not node.unschedulable and not any(label in node.labels for label in taken)


def _minimum(provisioner: Provisioner, nodes: Sequence[PoolNode], removing: Collection[str]) -> PoolMinimum:
    """Minimum of a pool by its thresholds, with the number of nodes that stay."""
    thresholds = provisioner.thresholds
    staying = [
        node
        for node in nodes
        if node.registered
        and not (node.upcoming or node.failed_to_register or node.marked_for_deletion)
        and node.name not in removing
    ]
    return PoolMinimum(
        nodes=len(staying), least=least_size(provisioner, nodes), least_empty=thresholds.min_unutilized_nodes
    )


def least_size(provisioner: Provisioner, nodes: Sequence[PoolNode]) -> int:
    """Least size of a drained pool: its minSize, or the largest size at which enough of it is in use."""
    thresholds = provisioner.thresholds
    if not thresholds.min_utilization_percent or not provisioner.consolidation.drains:
        return thresholds.min_size
    return max(thresholds.min_size, min(thresholds.max_size, size_in_use(nodes, thresholds)))


class MinSizeTracker:
    """Spare nodes and resources above each minimum."""

    def __init__(
        self, pools: Mapping[str, PoolMinimum], empty: Mapping[str, int], nodes: Collection[Node], facts: DrainInputs
    ) -> None:
        """`empty`: number of empty nodes by pool. `nodes`: nodes of the cluster that are not being removed."""
        self._pools = pools
        self._removable = {name: pool.nodes - pool.least for name, pool in pools.items()}
        self._removable_empty = {name: empty.get(name, 0) - pool.least_empty for name, pool in pools.items()}
        self._cluster = len(nodes) - facts.least_nodes
        self._resources = {
            name: sum(node.allocatable.get(name, 0) for node in nodes) - least
            for name, least in sorted(facts.least_resources.items())
        }
        self._least = facts.least_resources

    def reached(self, node: Node, *, empty: bool) -> UnremovableNode | None:
        """Minimum that this node's removal would break; None if it may go."""
        pool = node.labels.get(PROVISIONER_LABEL, "")
        if pool in self._pools:
            minimum = self._pools[pool]
            if self._removable[pool] <= 0:
                detail = f"pool {pool} keeps {minimum.least}"
                return UnremovableNode(node=node.name, reason=UnremovableReason.POOL_MINIMUM, detail=detail)
            if empty and self._removable_empty[pool] <= 0 and minimum.least_empty:
                detail = f"pool {pool} keeps {minimum.least_empty} empty"
                return UnremovableNode(node=node.name, reason=UnremovableReason.POOL_MINIMUM, detail=detail)
        if self._cluster <= 0:
            return UnremovableNode(node=node.name, reason=UnremovableReason.CLUSTER_MINIMUM)
        for name, left in self._resources.items():
            if node.allocatable.get(name, 0) > max(left, 0):
                detail = f"the cluster keeps {spoken(name, self._least[name])}"
                return UnremovableNode(node=node.name, reason=UnremovableReason.CLUSTER_MINIMUM, detail=detail)
        return None

    def take(self, node: Node, *, empty: bool) -> None:
        """Count a node as removed."""
        pool = node.labels.get(PROVISIONER_LABEL, "")
        self._cluster -= 1
        for name in self._resources:
            self._resources[name] -= node.allocatable.get(name, 0)
        if pool in self._pools:
            self._removable[pool] -= 1
            self._removable_empty[pool] -= empty


def spoken(name: str, amount: int) -> str:
    """Format an amount in thousandths for messages; memory in GiB."""
    whole = amount // MILLI
    return f"{whole // GIB} GiB of {name}" if name == "memory" else f"{whole} {name}"
