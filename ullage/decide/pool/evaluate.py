"""Stage one: how many nodes a pool should have. Nothing is done about it here."""

from collections.abc import Sequence
from dataclasses import dataclass

from ullage.model.device import MILLI_GPU
from ullage.model.provisioner import PoolNode, Thresholds

PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Sizes in nodes."""

    current: int
    keep: int
    """Of those that exist."""
    fresh: int
    """To be bought beside them."""
    utilization_percent: int | None
    """Rounded down; None where there are no GPUs."""
    why: str

    @property
    def target(self) -> int:
        return self.keep + self.fresh


def evaluate(
    nodes: Sequence[PoolNode], thresholds: Thresholds, *, wanted: int = 0, allowed: int | None = None
) -> Evaluation:
    """The sizes of a pool. `wanted` are new nodes that the demand needs beyond all that exists and comes.

    `allowed` is how many may be bought at all, where more than `maxSize` limits it.
    """
    alive = [node for node in nodes if not node.lost]
    room = max(0, thresholds.max_size - len(nodes))
    room = room if allowed is None else min(room, allowed)
    missing = max(0, thresholds.min_size - len(alive))
    fresh = min(max(wanted, missing), room)
    keep, why = _keep(alive, thresholds)
    if fresh:
        # Low utilisation is no reason to starve: what cannot go does not count against what must come.
        keep = max(keep, sum(not node.empty for node in alive))
        why = f"{fresh} more for pods that fit nowhere" if wanted >= missing else f"{fresh} more to minSize"
    if len(alive) > thresholds.max_size and keep > thresholds.max_size:
        keep, why = thresholds.max_size, f"maxSize is {thresholds.max_size}"
    return Evaluation(
        current=len(alive), keep=keep, fresh=fresh, utilization_percent=utilization_percent(alive), why=why
    )


def utilization_percent(nodes: Sequence[PoolNode]) -> int | None:
    """GPUs requested of GPUs there are, tainted and coming nodes included."""
    capacity = sum(node.capacity for node in nodes)
    return _in_use(nodes) * PERCENT // capacity if capacity else None


def removal_order(node: PoolNode) -> tuple[bool, bool, int, float, str]:
    """Who goes first: those who are going already, then empty ones, then the least used; the oldest of equals."""
    return not node.doomed, not node.empty, node.used + node.assumed, node.since, node.name


def _keep(nodes: Sequence[PoolNode], thresholds: Thresholds) -> tuple[int, str]:
    keep, why = len(nodes), "all are wanted"
    used, percent = _in_use(nodes), utilization_percent(nodes)
    if percent is not None and not _meets(used, sum(node.capacity for node in nodes), thresholds):
        keep = _largest_that_meets(nodes, used, thresholds)
        least = thresholds.min_utilization_percent
        why = f"{used / MILLI_GPU:g} GPUs in use are {percent} %, below {least} %: {keep} nodes meet it"
    floors = {"minSize": thresholds.min_size}
    if thresholds.min_unutilized_nodes:
        busy = sum(not node.empty for node in nodes)
        floors[f"minUnutilizedGPUNodes beside {busy} in use"] = busy + thresholds.min_unutilized_nodes
    for name, floor in floors.items():
        if keep < min(floor, len(nodes)):
            keep = min(floor, len(nodes))
            why = f"{why}; {keep} stay for {name}"
    return keep, why


def _largest_that_meets(nodes: Sequence[PoolNode], used: int, thresholds: Thresholds) -> int:
    capacity, left = sum(node.capacity for node in nodes), len(nodes)
    for node in sorted(nodes, key=removal_order):
        if _meets(used, capacity, thresholds):
            break
        capacity -= node.capacity
        left -= 1
    return left


def _meets(used: int, capacity: int, thresholds: Thresholds) -> bool:
    return used * PERCENT >= thresholds.min_utilization_percent * capacity


def _in_use(nodes: Sequence[PoolNode]) -> int:
    return sum(node.used + node.assumed for node in nodes)
