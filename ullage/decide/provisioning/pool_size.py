"""Target size of a pool, the first stage of a decision. `pool_step` decides on the step towards it."""

from collections.abc import Sequence
from dataclasses import dataclass

from ullage.model.device import MILLI_GPU
from ullage.model.provisioner import PoolNode, PoolThresholds
from ullage.model.units import Instant

PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSize:
    """Sizes of a pool, in nodes."""

    current: int
    keep: int
    """Existing nodes to keep."""
    fresh: int
    """Nodes to be bought."""
    utilization_percent: int | None
    """Utilization, rounded down; None where there are no GPUs."""
    why_keep: str
    """Reason for the number of nodes kept."""
    why_fresh: str = ""
    """Reason for new nodes; empty where there are none."""

    @property
    def why(self) -> str:
        """Reason for the target."""
        return self.why_fresh or self.why_keep

    @property
    def target(self) -> int:
        return self.keep + self.fresh


def evaluate(
    nodes: Sequence[PoolNode],
    thresholds: PoolThresholds,
    *,
    wanted: int = 0,
    allowed: int | None = None,
    pending: int = 0,
) -> PoolSize:
    """Sizes of a pool. `wanted` are new nodes that the demand needs beyond existing and upcoming ones.

    `allowed` is the number that may be bought, where more than `maxSize` limits it; `pending` the number of pods they
    are for.
    """
    alive = [node for node in nodes if not node.failed_to_register]
    room = max(0, thresholds.max_size - len(nodes))
    room = room if allowed is None else min(room, allowed)
    missing = max(0, thresholds.min_size - len(alive))
    fresh = min(max(wanted, missing), room)
    keep, why_keep = _keep(alive, thresholds)
    if len(alive) > thresholds.max_size and keep > thresholds.max_size:
        keep, why_keep = thresholds.max_size, f"maxSize is {thresholds.max_size}"
    return PoolSize(
        current=len(alive),
        keep=keep,
        fresh=fresh,
        utilization_percent=utilization_percent(alive),
        why_keep=why_keep,
        why_fresh=why_bought(fresh, missing, pending, thresholds),
    )


def why_bought(count: int, missing: int, pending: int, thresholds: PoolThresholds) -> str:
    """Reason for buying `count` nodes, of which `missing` are needed for minSize whatever the demand."""
    if not count:
        return ""
    to_minimum = f"to minSize {thresholds.min_size}"
    if count <= missing and not pending:
        return f"scale up by {count} {to_minimum}"
    pods = (
        "pending pods fit" if not pending else "1 pending pod fits" if pending == 1 else f"{pending} pending pods fit"
    )
    also = f"; {min(missing, count)} of them {to_minimum}" if missing else ""
    return f"scale up by {count}: {pods} no existing or upcoming node{also}"


def utilization_percent(nodes: Sequence[PoolNode]) -> int | None:
    """GPUs requested in percent of all GPUs, nodes marked for deletion and upcoming ones included."""
    capacity = sum(node.capacity for node in nodes)
    return _in_use(nodes) * PERCENT // capacity if capacity else None


def removal_order(node: PoolNode) -> tuple[bool, bool, int, Instant, str]:
    """Sort key of removal: nodes marked for deletion, then empty ones, then the least used; the oldest of equals."""
    return not node.marked_for_deletion, not node.empty, node.used + node.assumed, node.since, node.name


def size_in_use(nodes: Sequence[PoolNode], thresholds: PoolThresholds) -> int:
    """Largest size at which the pool meets its minimum utilization, if pods could be moved freely."""
    return _largest_that_meets([node for node in nodes if not node.failed_to_register], thresholds)


def _keep(nodes: Sequence[PoolNode], thresholds: PoolThresholds) -> tuple[int, str]:
    keep, why = len(nodes), "all are wanted"
    used, percent = _in_use(nodes), utilization_percent(nodes)
    if percent is not None and not _meets(used, sum(node.capacity for node in nodes), thresholds):
        keep = _largest_that_meets(nodes, thresholds)
        least = thresholds.min_utilization_percent
        why = f"{used / MILLI_GPU:g} GPUs in use are {percent} %, below {least} %: {keep} nodes meet it"
    # Nodes with pods cannot be removed, whatever the utilization: a target below them would never be reached.
    busy, spare = sum(not node.empty for node in nodes), thresholds.min_unutilized_nodes
    beside = f"minUnutilizedGPUNodes beside {busy} in use" if spare else "the pods on them"
    for name, floor in (("minSize", thresholds.min_size), (beside, busy + spare)):
        if keep < min(floor, len(nodes)):
            keep = min(floor, len(nodes))
            why = f"{why}; {keep} stay for {name}"
    return keep, why


def _largest_that_meets(nodes: Sequence[PoolNode], thresholds: PoolThresholds) -> int:
    used, capacity, left = _in_use(nodes), sum(node.capacity for node in nodes), len(nodes)
    for node in sorted(nodes, key=removal_order):
        if _meets(used, capacity, thresholds):
            break
        capacity -= node.capacity
        left -= 1
    return left


def _meets(used: int, capacity: int, thresholds: PoolThresholds) -> bool:
    return used * PERCENT >= thresholds.min_utilization_percent * capacity


def _in_use(nodes: Sequence[PoolNode]) -> int:
    return sum(node.used + node.assumed for node in nodes)
