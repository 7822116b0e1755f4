"""The GPUs of each row as device choice sees them, made when asked and remembered until the row changes.

What rows show is numbered: thousands of nodes show tens of things, and whoever asks the same of all of them keeps its
answers by number.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ullage.decide.devices.board import DeviceBoard, DeviceLayout, empty_board, layout_of
from ullage.model.device import Device, Inventory
from ullage.model.resources import GPU
from ullage.state.gpus import Kind
from ullage.state.placements import Placements

MOST_PANELS = 65_536
"""Beyond this numbering starts again."""


class Panel(NamedTuple):
    """All that GPUs of a row can say to an ask."""

    kind: Kind
    board: DeviceBoard | None
    """None where nothing was reported. Where a device plugin chooses, the board of the same node with nobody on it."""
    advertises: bool
    """Whether kubelet offers any GPUs; not looked at on leased nodes."""


NOBODY = Panel(Kind.NONE, None, advertises=False)
"""Of a row without a node. Its number is 0, which no node has."""


@lru_cache(maxsize=8192)
def _layout(devices: tuple[Device, ...]) -> DeviceLayout:
    """Nodes report twice a minute, and nearly always the same."""
    return _one_of_equals(layout_of(Inventory(node="", reported_at=0.0, devices=devices)))


@lru_cache(maxsize=8192)
def _one_of_equals(layout: DeviceLayout) -> DeviceLayout:
    """The same object for equal layouts: comparing boards is cheap then."""
    return layout


class _Report(NamedTuple):
    """What is made of a node's inventory."""

    devices: tuple[Device, ...]
    layout: DeviceLayout
    uuids: dict[int, str]


class Boards:
    """Boards by row, and the numbers of what rows show."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self._inventories = placements.state.inventories
        self._reports: dict[int, _Report] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._version = -1
        self.panels: list[Panel] = [NOBODY]
        """By number."""
        self.numbers: npt.NDArray[np.intp] = np.zeros(0, np.intp)
        """The number of each row, as of the last `refresh`."""
        self.generation = 0
        """Changes when numbers mean something else."""

    def of(self, row: int) -> DeviceBoard | None:
        """What is free on a row now; None where no inventory has been heard of."""
        report = self._report(row)
        return None if report is None else DeviceBoard(report.layout, *self._free(row, report.layout))

    def layout(self, row: int) -> DeviceLayout | None:
        """What there is on a row, free or not; None where no inventory has been heard of."""
        report = self._report(row)
        return None if report is None else report.layout

    def uuids(self, row: int) -> Mapping[int, str]:
        """Of the devices of a row, by id."""
        report = self._report(row)
        return {} if report is None else report.uuids

    def refresh(self) -> npt.NDArray[np.intp]:
        """The numbers of all rows as of now."""
        columns = self._placements.columns
        if self._version == columns.changed.version:
            return self.numbers
        changed = columns.changed.since(self._version) if self._version >= 0 else None
        if len(self.panels) > MOST_PANELS:
            self._numbers, self.panels, self.generation = {}, [NOBODY], self.generation + 1
            changed = None
        if len(self.numbers) < columns.size:
            self.numbers = np.zeros(columns.capacity, np.intp)
            changed = None
        for row in range(columns.size) if changed is None else changed:
            self.numbers[row] = self._number(row) if columns.names[row] else 0
        self._version = columns.changed.version
        return self.numbers

    def _number(self, row: int) -> int:
        columns = self._placements.columns
        kind, report = columns.gpus.kind.item(row), self._report(row)
        shown: tuple[object, ...]
        if kind != Kind.LEASED:
            advertises = columns.allocatable.item(columns.resource(GPU), row) > 0
            shown = kind, advertises, None if report is None else report.layout
        else:
            shown = (kind,) if report is None else (kind, report.layout, *self._free(row, report.layout))
        number = self._numbers.get(shown)
        if number is None:
            number = self._numbers[shown] = len(self.panels)
            self.panels.append(self._panel(row, Kind(kind), report))
        return number

    def _panel(self, row: int, kind: Kind, report: _Report | None) -> Panel:
        if kind is Kind.LEASED:
            return Panel(kind, self.of(row), advertises=False)
        columns = self._placements.columns
        advertises = columns.allocatable.item(columns.resource(GPU), row) > 0
        return Panel(kind, None if report is None else empty_board(report.layout), advertises)

    def _report(self, row: int) -> _Report | None:
        inventory = self._inventories.get(self._placements.columns.names[row])
        if inventory is None:
            return None
        known = self._reports.get(row)
        if known is None or known.devices is not inventory.devices:
            uuids = {device.id: device.uuid for device in inventory.devices}
            known = self._reports[row] = _Report(inventory.devices, _layout(inventory.devices), uuids)
        return known

    def _free(self, row: int, layout: DeviceLayout) -> tuple[tuple[int, ...], int]:
        """Thousandths of each device, and MIG instances."""
        # Instances are told apart by the pods that hold them; whole GPUs and shares by the columns.
        free = tuple(self._placements.columns.gpus.free[row].tolist()[: len(layout.models)])
        return free, self._free_instances(row, layout) if layout.instances else 0

    def _free_instances(self, row: int, layout: DeviceLayout) -> int:
        pods = self._placements.pods_on(self._placements.columns.names[row]).values()
        held = {uuid for pod in pods for uuid in pod.gpu_instances}
        free = 0
        for place, instance in enumerate(layout.instances):
            if instance.uuid not in held:
                free |= 1 << place
        return free
