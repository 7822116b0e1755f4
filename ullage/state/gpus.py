"""GPUs of all nodes as columns: one row a node, one place a device. What was promised, what is there, how it is wired.

Places follow device ids, so a set of devices is a mask of 16 bits. Choosing among them is not done here.
"""

from collections.abc import Iterable
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ullage.model.device import KIND_LABEL as KIND_LABEL
from ullage.model.device import MILLI_GPU, MOST_DEVICES, Device, GpuNodeKind, Health, Inventory

NEVER = -np.inf
"""When a node that never reported said what it has."""


class Kind(IntEnum):
    """Who chooses the GPUs of a node; see `GpuNodeKind`."""

    NONE = 0
    LEASED = 1
    COUNTED = 2


_SPOKEN = {GpuNodeKind.LEASED: Kind.LEASED, GpuNodeKind.COUNTED: Kind.COUNTED}
_LABELLED = {"leased": Kind.LEASED, "counted": Kind.COUNTED}


class GpuColumns:
    """Arrays over rows (nodes) and places (devices). Read them; write through the methods."""

    free: npt.NDArray[np.int32]
    """Thousandths of each device nobody holds; 0 where there is none, below 0 where it was promised twice."""
    held: npt.NDArray[np.int32]
    exists: npt.NDArray[np.uint16]
    healthy: npt.NDArray[np.uint16]
    """Devices that exist and are healthy."""
    island: npt.NDArray[np.int8]
    """Devices with one number are wired together; -1 where there is none."""
    bandwidth: npt.NDArray[np.int32]
    model: npt.NDArray[np.int16]
    """Index in `models`; -1 where there is none."""
    memory: npt.NDArray[np.int64]
    """Bytes."""
    reported_at: npt.NDArray[np.float64]
    kind: npt.NDArray[np.int8]

    def __init__(self) -> None:
        self.models: dict[str, int] = {}
        self._allocate(0)

    def _allocate(self, rows: int) -> None:
        wide = (rows, MOST_DEVICES)
        self.free, self.held = np.zeros(wide, np.int32), np.zeros(wide, np.int32)
        self.exists, self.healthy = np.zeros(rows, np.uint16), np.zeros(rows, np.uint16)
        self.island, self.model = np.full(wide, -1, np.int8), np.full(wide, -1, np.int16)
        self.bandwidth, self.memory = np.zeros(wide, np.int32), np.zeros(wide, np.int64)
        self.reported_at, self.kind = np.full(rows, NEVER), np.zeros(rows, np.int8)

    def grow(self, rows: int) -> None:
        before = {name: array for name, array in vars(self).items() if isinstance(array, np.ndarray)}
        self._allocate(rows)
        for name, array in before.items():
            getattr(self, name)[: len(array)] = array

    def clear(self, row: int) -> None:
        """Nothing is known of this row."""
        self.held[row] = 0
        self.report(row, None, {})

    def report(self, row: int, inventory: Inventory | None, labels: dict[str, str]) -> None:
        """What the node's agent says, and what the node's label says of who chooses."""
        self.exists[row] = self.healthy[row] = 0
        self.island[row] = self.model[row] = -1
        self.bandwidth[row] = self.memory[row] = 0
        self.reported_at[row] = NEVER if inventory is None else inventory.reported_at
        self.kind[row] = _kind(inventory, labels)
        devices = [] if inventory is None else [d for d in inventory.devices if 0 <= d.id < MOST_DEVICES]
        islands = _islands(devices)
        for device in devices:
            place, bit = device.id, 1 << device.id
            self.exists[row] |= bit
            if device.health is Health.HEALTHY:
                self.healthy[row] |= bit
            self.island[row, place] = islands[device.id]
            self.bandwidth[row, place] = device.bandwidth
            self.model[row, place] = self.models.setdefault(device.model, len(self.models))
            self.memory[row, place] = device.memory
        self._settle(row)

    def hold(self, row: int, ids: Iterable[int], thousandths: int) -> None:
        """Somebody takes this much of each of these devices, or gives it back where it is below zero."""
        exists = self.exists.item(row)
        for device in ids:
            held = self.held.item(row, device) + thousandths
            self.held[row, device] = held
            if exists >> device & 1:
                self.free[row, device] = MILLI_GPU - held

    def _settle(self, row: int) -> None:
        there = (int(self.exists[row]) >> np.arange(MOST_DEVICES)) & 1
        self.free[row] = there * (MILLI_GPU - self.held[row])


def _kind(inventory: Inventory | None, labels: dict[str, str]) -> Kind:
    """The label decides; a node without one is what its agent says."""
    spoken = Kind.NONE if inventory is None else _SPOKEN[inventory.kind]
    return _LABELLED.get(labels.get(KIND_LABEL, "").lower(), spoken)


def _islands(devices: list[Device]) -> dict[int, int]:
    """Numbers for islands, in the order of their lowest device; a device without one stands alone."""
    names = {device.id: device.island or f"alone/{device.id}" for device in devices}
    numbers = {name: n for n, name in enumerate(dict.fromkeys(names[id_] for id_ in sorted(names)))}
    return {id_: numbers[name] for id_, name in names.items()}
