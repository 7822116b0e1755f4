"""Minimum sizes of pools and of the cluster, in nodes and resources. Counted down as removable nodes are found."""

from collections.abc import Collection, Mapping

from ullage.decide.draining.inputs import DrainInputs, PoolMinimum
from ullage.model.draining import UnremovableNode, UnremovableReason
from ullage.model.node import Node
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.resources import GIB, MILLI


class MinSizeTracker:
    """Spare nodes and resources above each minimum."""

    def __init__(
        self, pools: Mapping[str, PoolMinimum], empty: Mapping[str, int], nodes: Collection[Node], facts: DrainInputs
    ) -> None:
        """`empty`: number of empty nodes by pool. `nodes`: nodes of the cluster that are not being removed."""
        self._pools = pools
        self._spare = {name: pool.nodes - pool.least for name, pool in pools.items()}
        self._spare_empty = {name: empty.get(name, 0) - pool.least_empty for name, pool in pools.items()}
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
            floor = self._pools[pool]
            if self._spare[pool] <= 0:
                detail = f"pool {pool} keeps {floor.least}"
                return UnremovableNode(node=node.name, why=UnremovableReason.POOL_MINIMUM, detail=detail)
            if empty and self._spare_empty[pool] <= 0 and floor.least_empty:
                detail = f"pool {pool} keeps {floor.least_empty} empty"
                return UnremovableNode(node=node.name, why=UnremovableReason.POOL_MINIMUM, detail=detail)
        if self._cluster <= 0:
            return UnremovableNode(node=node.name, why=UnremovableReason.CLUSTER_MINIMUM)
        for name, spare in self._resources.items():
            if node.allocatable.get(name, 0) > max(spare, 0):
                detail = f"the cluster keeps {spoken(name, self._least[name])}"
                return UnremovableNode(node=node.name, why=UnremovableReason.CLUSTER_MINIMUM, detail=detail)
        return None

    def take(self, node: Node, *, empty: bool) -> None:
        """Count a node as removed."""
        pool = node.labels.get(PROVISIONER_LABEL, "")
        self._cluster -= 1
        for name in self._resources:
            self._resources[name] -= node.allocatable.get(name, 0)
        if pool in self._pools:
            self._spare[pool] -= 1
            self._spare_empty[pool] -= empty


def spoken(name: str, amount: int) -> str:
    """Format an amount in thousandths for messages; memory in GiB."""
    whole = amount // MILLI
    return f"{whole // GIB} GiB of {name}" if name == "memory" else f"{whole} {name}"
