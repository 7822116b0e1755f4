"""What GPU models are worth keeping for pods that can use no other."""

import numpy as np
from numpy.typing import NDArray

from ullage.decide.score.columns import GpuDemand
from ullage.decide.score.mix import Typical
from ullage.model.device import MILLI_GPU

PRICE = 0.2
"""Of one GPU of a model that is asked for by name exactly as much as there is of it, in GPUs' worth of fragments."""
HIGHEST = 2.0
"""Demand beyond this many times what there is makes a model no dearer."""
CPU_POD = 0.25
"""A pod without GPUs pays as if it took this many: it may strand them."""


def scarcity(typical: Typical, capacity: NDArray[np.float64]) -> NDArray[np.float64]:
    """By model: GPUs asked for by pods that name models, for each GPU there is, if all demand together were all GPUs.

    A pod that takes several models asks each in proportion to what there is of it; one that takes all there are names
    none.
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
    """What this pod pays on each model, in thousandths of a GPU. One that can use only one model pays nothing."""
    sizes = demand.sizes(len(scarce))
    if demand.gpus and np.count_nonzero(sizes) == 1:
        return np.zeros(len(scarce))
    taken = demand.gpus * sizes if demand.gpus else np.full(len(scarce), CPU_POD * MILLI_GPU)
    paid: NDArray[np.float64] = PRICE * scarce * taken
    return paid
