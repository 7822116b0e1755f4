"""Price of scarce GPU models, which keeps them for pods that can use no other model."""

import numpy as np
from numpy.typing import NDArray

from ullage.decide.placement.score.gpu_scorer import GpuDemand
from ullage.decide.placement.score.workload_mix import TypicalDemands
from ullage.model.device import MILLI_GPU

PRICE = 0.2
"""Price of one GPU of a model whose demand by name equals its capacity, in GPUs of fragmentation."""
HIGHEST = 2.0
"""Upper bound of a model's scarcity, as demand by name over capacity."""
CPU_POD = 0.25
"""GPUs a pod without GPUs pays for: it may strand them."""


def scarcity(typical: TypicalDemands, capacity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scarcity by model: GPUs demanded by name per GPU of capacity, with total demand scaled to total capacity.

    A pod that takes several models demands each in proportion to its capacity. A pod that takes all models in the
    cluster demands none by name.
    """
    wanted = np.zeros(len(capacity))
    total = 0.0
    for demand, weight in zip(typical.demands, typical.weights, strict=True):
        sizes = demand.sizes(len(capacity))
        allowed = sizes > 0
        room = float(capacity[allowed].sum())
        if not demand.gpus or not room:
            continue
        asked = weight * demand.gpus * sizes * np.where(allowed, capacity, 0.0) / room / MILLI_GPU
        total += float(asked.sum())
        if not allowed[capacity > 0].all():
            wanted += asked
    if not total:
        return wanted
    share = wanted / total * capacity.sum() / np.maximum(capacity, 1.0)
    scarce: NDArray[np.float64] = np.minimum(share, HIGHEST)
    return scarce


def price(demand: GpuDemand, scarce: NDArray[np.float64]) -> NDArray[np.float64]:
    """Price of a demand on each model, in thousandths of a GPU. A demand that only one model suits pays nothing."""
    sizes = demand.sizes(len(scarce))
    if demand.gpus and np.count_nonzero(sizes) == 1:
        return np.zeros(len(scarce))
    taken = demand.gpus * sizes if demand.gpus else np.full(len(scarce), CPU_POD * MILLI_GPU)
    paid: NDArray[np.float64] = PRICE * scarce * taken
    return paid
