"""Boards that are not there yet: what a node's GPUs would be with some held ones free, or some free ones held.

Preemption asks `would_get` with the devices of the pods it thinks of evicting; gangs place one member after another on
`taken` boards. Nothing here says whose devices may be freed.
"""

from collections.abc import Iterable

import msgspec

from ullage.decide.devices.board import DeviceBoard
from ullage.decide.devices.choice import Choice
from ullage.decide.devices.choosing import choose
from ullage.model.claim import DeviceAsk
from ullage.model.device import MILLI_GPU
from ullage.model.verdict import Verdict


class Holding(msgspec.Struct, frozen=True, gc=False):
    """What one pod holds on a node: a part of each device, or MIG instances."""

    ids: tuple[int, ...]
    share_milli: int = MILLI_GPU
    instances: tuple[str, ...] = ()


def would_get(board: DeviceBoard, ask: DeviceAsk, freed: Iterable[Holding]) -> Choice | Verdict:
    """What the ask would get if these let go of what they hold."""
    for holding in freed:
        board = without(board, holding)
    return choose(board, ask)


def without(board: DeviceBoard, holding: Holding) -> DeviceBoard:
    """The board after this one is gone."""
    return _moved(board, holding, 1)


def taken(board: DeviceBoard, choice: Choice) -> DeviceBoard:
    """The board after a choice made on it is held."""
    return _moved(board, Holding(choice.ids, choice.share_milli, choice.instances), -1)


def _moved(board: DeviceBoard, holding: Holding, sign: int) -> DeviceBoard:
    free = list(board.free)
    if not holding.instances:
        for device in holding.ids:
            free[device] += sign * holding.share_milli
    instances = board.free_instances
    for place, instance in enumerate(board.layout.instances):
        if instance.uuid in holding.instances:
            instances = instances | 1 << place if sign > 0 else instances & ~(1 << place)
    return DeviceBoard(board.layout, tuple(free), instances)
