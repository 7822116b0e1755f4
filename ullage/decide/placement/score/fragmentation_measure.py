"""Fragmentation measure: the idle GPU of a node that the typical pods could use.

For one typical pod, a node's idle GPU is usable where a device has room for its share, if the node has enough such
devices and enough CPU for one more pod; the rest is a fragment to it. That is the published measure, and it counts
four fifths. One fifth is counted more sharply: only as much as the CPU left could ever serve with pods of that kind,
so that a node's GPUs are seen to be stranded long before its CPU is gone. (Counting whole copies instead, with their
remainders, spoils the packing of multi-GPU pods.) The measure of a node is the mean over the typical pods.

A node's state is three numbers per typical pod: devices with room, idle GPU on them, and the CPU left. Placing a pod
changes them by the contribution of its devices, which is tabulated.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ullage.decide.placement.score.workload_mix import TypicalDemands
from ullage.model.device import MILLI_GPU

CPU_SHARE = 0.2
"""Part of the measure, 0 to 1, that is bounded by what the CPU left can serve."""

_REFUSED = MILLI_GPU + 1
_AT_ONCE = 1024

Counts = NDArray[np.int32]
Amounts = NDArray[np.float64]
Rows = NDArray[np.integer]


class UsableGpus(NamedTuple):
    """States of some rows (first axis), for each typical pod (second axis)."""

    devices: Counts
    """Devices with room for its share."""
    room: Amounts
    """Idle GPU on those devices, in thousandths."""
    cpu: NDArray[np.int64]
    """CPU left (rows only)."""
    kind: Rows
    """Kind of each row's model in the measure (rows only)."""

    def at(self, places: Rows) -> "UsableGpus":
        """States of these rows only; a copy."""
        return UsableGpus(
            self.devices.take(places, 0), self.room.take(places, 0), self.cpu.take(places), self.kind.take(places)
        )

    def put(self, places: Rows | slice, state: "UsableGpus") -> None:
        """Write the state of these rows."""
        self.devices[places] = state.devices
        self.room[places] = state.room
        self.cpu[places] = state.cpu
        self.kind[places] = state.kind


class FragmentationMeasure:
    """Typical pods as arrays. Models of which every typical pod takes the same are one kind."""

    def __init__(self, typical: TypicalDemands, models: int) -> None:
        popular = list(zip(typical.demands, typical.weights, strict=True))[: typical.popular]
        # Pods without GPUs count: to them all idle GPU is a fragment, whatever is placed where.
        total = sum(weight for _, weight in popular)
        asking = [(demand, weight / total) for demand, weight in popular if demand.gpus]
        demands = [demand for demand, _ in asking]
        wanted = np.array([demand.sizes(models) for demand in demands], dtype=np.int64).reshape(len(demands), models)
        sizes, kinds = np.unique(wanted.T, axis=0, return_inverse=True)
        self.kind_of_model = kinds.reshape(models)
        needed = np.where(sizes > 0, sizes, _REFUSED)
        self._weights = np.array([weight for _, weight in asking])
        self._count = np.array([demand.gpus for demand in demands], dtype=np.int32)
        self._cpu = np.array([demand.cpu for demand in demands], dtype=np.int64)
        self._gpu_per_cpu = sizes * self._count / np.maximum(self._cpu, 1)
        idle = np.arange(MILLI_GPU + 1)
        enough = idle[None, :, None] >= needed[:, None, :]
        self.device_table: Counts = enough.astype(np.int32)
        self.room_table: Amounts = np.where(enough, idle[None, :, None], 0).astype(np.float64)

    def no_state(self, rows: int) -> UsableGpus:
        """Zeroed state of so many rows, to be written."""
        shape = (rows, len(self._count))
        return UsableGpus(
            np.zeros(shape, np.int32), np.zeros(shape), np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        )

    def state(self, gpu_left: Rows, cpu_left: NDArray[np.int64], model: Rows) -> UsableGpus:
        """State of these rows."""
        kind = self.kind_of_model[model]
        if len(kind) > _AT_ONCE:
            halves = (slice(len(kind) // 2), slice(len(kind) // 2, None))
            parts = [self.state(gpu_left[half], cpu_left[half], model[half]) for half in halves]
            return UsableGpus(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        devices = self.device_table[kind[:, None], gpu_left].sum(axis=1, dtype=np.int32)
        return UsableGpus(devices, self.room_table[kind[:, None], gpu_left].sum(axis=1), cpu_left, kind)

    def usable(self, state: UsableGpus) -> Amounts:
        """Idle GPU a typical pod could use, in thousandths, by row."""
        cpu = state.cpu[:, None]
        served = np.minimum(state.room, cpu * self._gpu_per_cpu.take(state.kind, 0))
        served *= CPU_SHARE
        served += state.room * (1.0 - CPU_SHARE)
        served *= (state.devices >= self._count) & (cpu >= self._cpu)
        total: Amounts = served @ self._weights
        return total
