"""NodeDevices of each row for device choice, made on use and cached until the row changes.

NodeDevices are numbered: thousands of nodes have tens of different ones, and callers that ask the same of all rows
cache their answers by number.
"""

from collections.abc import Mapping
from copy import copy
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.devices.layout import DeviceLayout, FreeDevices, empty_devices, layout_of
from ullage.model.device import Device, Inventory
from ullage.model.resources import GPU
from ullage.model.units import Instant
from ullage.state.device_columns import NodeKindCode
from ullage.state.snapshot import ClusterSnapshot

MOST_DISTINCT = 65_536
"""Numbers in use beyond which numbering starts again."""


class NodeDevices(NamedTuple):
    """All of a row that decides its answer to a device request."""

    kind: NodeKindCode
    gpus: FreeDevices | None
    """Free devices; None without an inventory. Off leased nodes, the devices of the same node without pods."""
    advertises: bool
    """True if kubelet advertises any GPUs; False on leased nodes, where it is not read."""


NOBODY = NodeDevices(NodeKindCode.NONE, None, advertises=False)
"""NodeDevices of a row without a node. Its number is 0, which no node has."""


@lru_cache(maxsize=8192)
def _layout(devices: tuple[Device, ...]) -> DeviceLayout:
    """Layout of these devices. Cached: nodes report twice a minute, and nearly always the same."""
    return _one_of_equals(layout_of(Inventory(node="", reported_at=Instant(0.0), devices=devices)))


@lru_cache(maxsize=8192)
def _one_of_equals(layout: DeviceLayout) -> DeviceLayout:
    """Return the same object for equal layouts, so that comparing them is cheap."""
    return layout


class _Report(NamedTuple):
    """Layout and UUIDs made from a node's inventory."""

    devices: tuple[Device, ...]
    layout: DeviceLayout
    uuids: dict[int, str]


class DeviceSnapshots:
    """Free devices and NodeDevices numbers by row."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._inventories = snapshot.state.inventories
        self._reports: dict[int, _Report] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._version = -1
        self.distinct: list[NodeDevices] = [NOBODY]
        """NodeDevices by number."""
        self.numbers: npt.NDArray[np.intp] = np.zeros(0, np.intp)
        """NodeDevices number of each row at the last `refresh`."""
        self.generation = 0
        """Counter of numberings. After a change earlier numbers are invalid."""

    def fork_for(self, snapshot: ClusterSnapshot) -> "DeviceSnapshots":
        """Return a copy for the forked snapshot."""
        twin = copy(self)
        twin._snapshot, twin._inventories = snapshot, snapshot.state.inventories
        twin._reports, twin._numbers = self._reports.copy(), self._numbers.copy()
        twin.distinct, twin.numbers = self.distinct.copy(), self.numbers.copy()
        return twin

    def of(self, row: int) -> FreeDevices | None:
        """Free devices of a row now; None without an inventory."""
        report = self._report(row)
        return None if report is None else FreeDevices(report.layout, *self._free(row, report.layout))

    def layout(self, row: int) -> DeviceLayout | None:
        """Layout of a row, free or not; None without an inventory."""
        report = self._report(row)
        return None if report is None else report.layout

    def uuids(self, row: int) -> Mapping[int, str]:
        """UUIDs of the devices of a row, by device id."""
        report = self._report(row)
        return {} if report is None else report.uuids

    def refresh(self) -> npt.NDArray[np.intp]:
        """NodeDevices numbers of all rows, up to date."""
        columns = self._snapshot.columns
        if self._version == columns.changed.version:
            return self.numbers
        changed = columns.changed.since(self._version) if self._version >= 0 else None
        if len(self.distinct) > MOST_DISTINCT:
            self._numbers, self.distinct, self.generation = {}, [NOBODY], self.generation + 1
            changed = None
        if len(self.numbers) < columns.size:
            before, self.numbers = self.numbers, np.zeros(columns.capacity, np.intp)
            self.numbers[: len(before)] = before  # rows beyond these changed, too
        for row in range(columns.size) if changed is None else changed:
            self.numbers[row] = self._number(row) if columns.names[row] else 0
        self._version = columns.changed.version
        return self.numbers

    def _number(self, row: int) -> int:
        columns = self._snapshot.columns
        kind, report = columns.gpus.kind.item(row), self._report(row)
        shown: tuple[object, ...]
        if kind != NodeKindCode.LEASED:
            advertises = columns.allocatable.item(columns.resource(GPU), row) > 0
            shown = kind, advertises, None if report is None else report.layout
        else:
            shown = (kind,) if report is None else (kind, report.layout, *self._free(row, report.layout))
        number = self._numbers.get(shown)
        if number is None:
            number = self._numbers[shown] = len(self.distinct)
            self.distinct.append(self._node_devices(row, NodeKindCode(kind), report))
        return number

    def _node_devices(self, row: int, kind: NodeKindCode, report: _Report | None) -> NodeDevices:
        if kind is NodeKindCode.LEASED:
            return NodeDevices(kind, self.of(row), advertises=False)
        columns = self._snapshot.columns
        advertises = columns.allocatable.item(columns.resource(GPU), row) > 0
        return NodeDevices(kind, None if report is None else empty_devices(report.layout), advertises)

    def _report(self, row: int) -> _Report | None:
        inventory = self._inventories.get(self._snapshot.columns.names[row])
        if inventory is None:
            return None
        known = self._reports.get(row)
        if known is None or known.devices is not inventory.devices:
            uuids = {device.id: device.uuid for device in inventory.devices}
            known = self._reports[row] = _Report(inventory.devices, _layout(inventory.devices), uuids)
        return known

    def _free(self, row: int, layout: DeviceLayout) -> tuple[tuple[int, ...], int]:
        """Free thousandths of each device, and free MIG instances as bits."""
        # Instances are told apart by the pods that hold them; whole GPUs and shares by the columns.
        free = tuple(self._snapshot.columns.gpus.free[row].tolist()[: len(layout.models)])
        return free, self._free_instances(row, layout) if layout.instances else 0

    def _free_instances(self, row: int, layout: DeviceLayout) -> int:
        pods = self._snapshot.pods_on(self._snapshot.columns.names[row]).values()
        held = {uuid for pod in pods for uuid in pod.gpu_instances}
        whole = self._snapshot.columns.gpus.held[row]
        free = 0
        for place, instance in enumerate(layout.instances):
            # A GPU that was split while a pod held it, whole or in shares, is still held by that pod.
            if instance.uuid not in held and whole.item(instance.device) <= 0:
                free |= 1 << place
        return free
