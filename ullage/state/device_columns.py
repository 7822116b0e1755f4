"""GPUs of all nodes as columns: one row a node, one place a device. What was promised, what is there, how it is wired.

Places follow device ids, so a set of devices is a mask of 16 bits. Choosing among them is not done here.
"""

from collections.abc import Iterable
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ullage.model.device import KIND_LABEL as KIND_LABEL
from ullage.model.device import MILLI_GPU, MOST_DEVICES, Device, DeviceHealth, GpuNodeKind, Inventory
from ullage.model.units import Milli
from ullage.state.forking import Forkable

NEVER = -np.inf
"""Report time of a node whose agent never reported."""

_NOTHING, _UNKNOWN = [0] * MOST_DEVICES, [-1] * MOST_DEVICES


class NodeKindCode(IntEnum):
    """Chooser of a node's GPUs: ullage (leased), a device plugin (counted) or a DRA driver; see `GpuNodeKind`."""

    NONE = 0
    LEASED = 1
    COUNTED = 2
    DRA = 3


_SPOKEN = {
    GpuNodeKind.LEASED: NodeKindCode.LEASED,
    GpuNodeKind.COUNTED: NodeKindCode.COUNTED,
    GpuNodeKind.DRA: NodeKindCode.DRA,
}
_LABELLED = {kind.value.lower(): spoken for kind, spoken in _SPOKEN.items()}


class DeviceColumns(Forkable):
    """Arrays over rows (nodes) and places (devices). Read them; write through the methods."""

    free: npt.NDArray[np.int32]
    """Free thousandths of each device; 0 where there is no device, negative where more is held than it has."""
    held: npt.NDArray[np.int32]
    pieces: npt.NDArray[np.int16]
    """Number of MIG instances held, by device."""
    exists: npt.NDArray[np.uint16]
    healthy: npt.NDArray[np.uint16]
    """Devices that exist and are healthy."""
    split: npt.NDArray[np.uint16]
    """Devices that have MIG instances."""
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
        self.pieces, self.split = np.zeros(wide, np.int16), np.zeros(rows, np.uint16)
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
        """Forget all that is known of this row."""
        self.held[row] = self.pieces[row] = 0
        self.report(row, None, {})

    def report(self, row: int, inventory: Inventory | None, labels: dict[str, str]) -> None:
        """Take in the report of the node's agent, and the node's label for its kind."""
        self.reported_at[row] = NEVER if inventory is None else inventory.reported_at
        self.kind[row] = _kind(inventory, labels)
        devices = [] if inventory is None else [d for d in inventory.devices if 0 <= d.id < MOST_DEVICES]
        islands = _islands(devices)
        exists = healthy = split = 0
        island, model, bandwidth, memory = _UNKNOWN.copy(), _UNKNOWN.copy(), _NOTHING.copy(), _NOTHING.copy()
        for device in devices:
            place, bit = device.id, 1 << device.id
            exists |= bit
            if device.health is DeviceHealth.HEALTHY:
                healthy |= bit
            if device.mig:
                split |= bit
            island[place] = islands[place]
            bandwidth[place], memory[place] = device.bandwidth, device.memory
            model[place] = self.models.setdefault(device.model, len(self.models))
        self.exists[row], self.healthy[row], self.split[row] = exists, healthy, split
        self.island[row], self.model[row], self.bandwidth[row], self.memory[row] = island, model, bandwidth, memory
        self._settle(row)

    def hold(self, row: int, ids: Iterable[int], thousandths: Milli) -> None:
        """Take this much of each of these devices, or give it back if negative."""
        exists, split = self.exists.item(row), self.split.item(row)
        for device in ids:
            held = self.held.item(row, device) + thousandths
            self.held[row, device] = held
            if exists >> device & 1 and (split >> device & 1 or not self.pieces.item(row, device)):
                self.free[row, device] = MILLI_GPU - held

    def hold_instances(self, row: int, ids: Iterable[int], sign: int) -> None:
        """Take a MIG instance of each of these devices (+1), or give it back (-1)."""
        for device in ids:
            self.pieces[row, device] += sign
        self._settle(row)

    def _settle(self, row: int) -> None:
        """Keep a device with a held MIG instance from other pods though it is no longer split: the holder runs."""
        exists, split = self.exists.item(row), self.split.item(row)
        held, pieces = self.held[row].tolist(), self.pieces[row].tolist()
        self.free[row] = [
            MILLI_GPU - held[place] if exists >> place & 1 and (split >> place & 1 or not pieces[place]) else 0
            for place in range(MOST_DEVICES)
        ]


def _kind(inventory: Inventory | None, labels: dict[str, str]) -> NodeKindCode:
    """The label decides; a node without one is what its agent says."""
    spoken = NodeKindCode.NONE if inventory is None else _SPOKEN[inventory.kind]
    return _LABELLED.get(labels.get(KIND_LABEL, "").lower(), spoken)


def _islands(devices: list[Device]) -> dict[int, int]:
    """Numbers for islands, in the order of their lowest device; a device without one stands alone."""
    names = {device.id: device.island or f"alone/{device.id}" for device in devices}
    numbers = {name: n for n, name in enumerate(dict.fromkeys(names[id_] for id_ in sorted(names)))}
    return {id_: numbers[name] for id_, name in names.items()}
