"""Small clusters as columns, and the measure of fragmentation in plain words."""

from collections.abc import Sequence

import numpy as np

from ullage.decide.placement.score.fragmentation_measure import CPU_SHARE
from ullage.decide.placement.score.gpu_scorer import Flags, GpuDemand, GpuScorer, ScoreColumns, best
from ullage.decide.placement.score.workload_mix import TypicalDemands
from ullage.model.device import MILLI_GPU

WHOLE = (MILLI_GPU,)


class Field:
    """Nodes that can be filled. A node is (cores, what is left of each GPU) and perhaps the index of its model."""

    def __init__(self, *nodes: tuple[int, Sequence[int]], models: Sequence[int] | None = None) -> None:
        width = max((len(gpus) for _, gpus in nodes), default=1)
        left = np.zeros((len(nodes), width), dtype=np.int64)
        for row, (_, gpus) in enumerate(nodes):
            left[row, : len(gpus)] = gpus
        cpu = np.array([cores * 1000 for cores, _ in nodes], dtype=np.int64)
        self.columns = ScoreColumns(
            stamp=np.zeros(len(nodes), dtype=np.int64),
            cpu_left=cpu.copy(),
            cpu_total=cpu,
            gpu_left=left,
            gpu_total=np.array([len(gpus) * MILLI_GPU for _, gpus in nodes], dtype=np.int64),
            model=np.array(models or [0] * len(nodes), dtype=np.int64),
            name_rank=np.arange(len(nodes)),
        )

    def permuted(self, order: Sequence[int]) -> "Field":
        """The same nodes in other rows."""
        other, c, rows = Field(), self.columns, np.array(order)
        names = c.name_rank[rows]
        other.columns = ScoreColumns(
            c.stamp[rows],
            c.cpu_left[rows],
            c.cpu_total[rows],
            c.gpu_left[rows],
            c.gpu_total[rows],
            c.model[rows],
            names,
        )
        return other

    def fitting(self, demand: GpuDemand) -> Flags:
        sizes = np.array(demand.milli)[self.columns.model]
        fits: Flags = self.columns.cpu_left >= demand.cpu
        if demand.gpus:
            roomy = (self.columns.gpu_left >= sizes[:, None]).sum(axis=1)
            fits = fits & (sizes > 0) & (roomy >= demand.gpus)
        return fits

    def place(self, policy: GpuScorer, demand: GpuDemand) -> tuple[int, tuple[int, ...]] | None:
        """Put a pod where the policy says; the name of the node (its rank) and the devices, or None if nothing fits."""
        columns = self.columns
        won = best(policy, columns, demand, self.fitting(demand))
        if won is None:
            return None
        left, size = columns.gpu_left[won.row], demand.milli[int(columns.model[won.row])]
        devices = [won.device] if won.device >= 0 else np.flatnonzero(left >= size)[: demand.gpus].tolist()
        left[devices] -= size
        columns.cpu_left[won.row] -= demand.cpu
        columns.stamp[won.row] += 1
        return int(columns.name_rank[won.row]), tuple(devices)


def usable_by_the_book(cpu: int, gpus: Sequence[int], model: int, typical: TypicalDemands) -> float:
    """What typical pods could use of a node's idle GPU, one pod and one device at a time."""
    popular = list(zip(typical.demands, typical.weights, strict=True))[: typical.popular]
    total = 0.0
    for demand, weight in popular:
        size = demand.milli[model]
        roomy = [left for left in gpus if size and left >= size]
        if demand.gpus and len(roomy) >= demand.gpus and cpu >= demand.cpu:
            served = cpu / demand.cpu * demand.gpus * size
            total += weight * ((1 - CPU_SHARE) * sum(roomy) + CPU_SHARE * min(sum(roomy), served))
    return total / sum(weight for _, weight in popular)
