"""How many nodes must stay, in each pool and in the cluster, counted down while nodes are found that can go."""

from collections.abc import Mapping

from ullage.decide.drain.facts import PoolFloor
from ullage.model.drain import Unremovable, WhyStays
from ullage.model.node import Node
from ullage.model.provisioner import PROVISIONER_LABEL


class Floors:
    """What is left above each minimum."""

    def __init__(self, pools: Mapping[str, PoolFloor], empty: Mapping[str, int], *, nodes: int, least: int) -> None:
        """`empty`: how many empty nodes each pool has. `nodes`: the cluster has, and keeps at least `least`."""
        self._pools = pools
        self._spare = {name: pool.nodes - pool.least for name, pool in pools.items()}
        self._spare_empty = {name: empty.get(name, 0) - pool.least_empty for name, pool in pools.items()}
        self._cluster = nodes - least

    def reached(self, node: Node, *, empty: bool) -> Unremovable | None:
        """Why there must not be one node less; None if there may."""
        pool = node.labels.get(PROVISIONER_LABEL, "")
        if pool in self._pools:
            floor = self._pools[pool]
            if self._spare[pool] <= 0:
                detail = f"pool {pool} keeps {floor.least}"
                return Unremovable(node=node.name, why=WhyStays.POOL_MINIMUM, detail=detail)
            if empty and self._spare_empty[pool] <= 0 and floor.least_empty:
                detail = f"pool {pool} keeps {floor.least_empty} empty"
                return Unremovable(node=node.name, why=WhyStays.POOL_MINIMUM, detail=detail)
        if self._cluster <= 0:
            return Unremovable(node=node.name, why=WhyStays.CLUSTER_MINIMUM)
        return None

    def take(self, node: Node, *, empty: bool) -> None:
        """This one goes."""
        pool = node.labels.get(PROVISIONER_LABEL, "")
        self._cluster -= 1
        if pool in self._pools:
            self._spare[pool] -= 1
            self._spare_empty[pool] -= empty
