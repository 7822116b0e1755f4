"""Order of removal trials: total, and the same in every loop as long as nothing changes."""

from collections.abc import Iterable, Mapping

import numpy as np

from ullage.decide.draining.eligibility import CPU, Shares, gpus_used
from ullage.decide.draining.loads import PodsToMove
from ullage.model.device import MILLI_GPU
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.state.node_columns import NodeColumns

Key = tuple[int, int, int, float, int, int, str]


def in_order(
    loads: Iterable[PodsToMove], columns: NodeColumns, shares: Shares, prices: Mapping[str, int]
) -> list[PodsToMove]:
    """Empty nodes, then least disruption, then most expensive idle capacity, then name."""
    size = columns.size
    gpu, cpu = columns.resource(GPU), columns.resource(CPU)
    idle_gpus = np.maximum(columns.allocatable[gpu, :size] - gpus_used(columns), 0)
    idle_cpu = columns.allocatable[cpu, :size] - columns.used[cpu, :size]

    def key(load: PodsToMove) -> Key:
        row = columns.rows[load.node]
        idle_price = prices.get(load.node, 0) * max(1.0 - shares.item(row), 0.0)
        return (
            len(load.moving),
            len(load.waited_for),
            _gpus_held(load.moving),
            -idle_price,
            -idle_gpus.item(row),
            -idle_cpu.item(row),
            load.node,
        )

    return sorted(loads, key=key)


def _gpus_held(pods: Iterable[Pod]) -> int:
    """GPUs held by these pods, in thousandths: interrupting a pod with GPUs costs more than another."""
    held = 0
    for pod in pods:
        if pod.gpu_ids:
            held += len(pod.gpu_ids) * pod.gpu_share
        elif pod.shape.devices is not None:
            held += pod.shape.devices.count * MILLI_GPU
    return held
