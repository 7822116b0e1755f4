"""The GPUs of each row as device choice sees them, made when asked and remembered until the row changes."""

from functools import lru_cache

from ullage.decide.devices.board import DeviceBoard, DeviceLayout, layout_of
from ullage.model.device import Device, Inventory
from ullage.state.placements import Placements


@lru_cache(maxsize=8192)
def _layout(devices: tuple[Device, ...]) -> DeviceLayout:
    """Nodes report twice a minute, and nearly always the same."""
    return layout_of(Inventory(node="", reported_at=0.0, devices=devices))


class Boards:
    """Boards by row."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self._known: dict[int, tuple[int, DeviceBoard]] = {}

    def of(self, row: int) -> DeviceBoard | None:
        """What is free on a row now; None where no inventory has been heard of."""
        stamp = self._placements.columns.changed.of_row.item(row)
        known = self._known.get(row)
        if known is not None and known[0] == stamp:
            return known[1]
        name = self._placements.columns.names[row]
        inventory = self._placements.state.inventories.get(name)
        if inventory is None:
            return None
        layout = _layout(inventory.devices)
        # MIG instances are told apart by the pods that hold them; whole GPUs and shares by the columns.
        free = tuple(self._placements.columns.gpus.free[row].tolist()[: layout.present.bit_length()])
        board = DeviceBoard(layout, free, self._free_instances(name, layout))
        self._known[row] = (stamp, board)
        return board

    def _free_instances(self, node: str, layout: DeviceLayout) -> int:
        if not layout.instances:
            return 0
        held = {uuid for pod in self._placements.pods_on(node).values() for uuid in pod.gpu_instances}
        free = 0
        for place, instance in enumerate(layout.instances):
            if instance.uuid not in held:
                free |= 1 << place
        return free
