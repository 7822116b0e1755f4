"""Hypothetical FreeDevices: a node's GPUs with some held devices freed, or some free devices held.

Preemption calls `would_get` with the devices of the pods it may evict. `preemption.protection` decides which pods
those are.
"""

from collections.abc import Iterable

import msgspec

from ullage.decide.placement.devices.choice import DeviceChoice
from ullage.decide.placement.devices.choose import choose
from ullage.decide.placement.devices.layout import FreeDevices
from ullage.model.claim import DeviceRequest
from ullage.model.device import MILLI_GPU
from ullage.model.units import Milli
from ullage.model.verdict import Verdict


class DeviceHolding(msgspec.Struct, frozen=True, gc=False):
    """Devices one pod holds on a node: a part of each device, or MIG instances."""

    ids: tuple[int, ...]
    share_milli: Milli = MILLI_GPU
    instances: tuple[str, ...] = ()


def would_get(gpus: FreeDevices, ask: DeviceRequest, freed: Iterable[DeviceHolding]) -> DeviceChoice | Verdict:
    """Device choice for the request once these holdings are freed."""
    for holding in freed:
        gpus = without(gpus, holding)
    return choose(gpus, ask)


def without(gpus: FreeDevices, holding: DeviceHolding) -> FreeDevices:
    """Free devices once this holding is freed."""
    return _moved(gpus, holding, 1)


def taken(gpus: FreeDevices, choice: DeviceChoice) -> FreeDevices:
    """Free devices once a choice made on them is held."""
    return _moved(gpus, DeviceHolding(choice.ids, choice.share_milli, choice.instances), -1)


def _moved(gpus: FreeDevices, holding: DeviceHolding, sign: int) -> FreeDevices:
    free = list(gpus.free)
    if not holding.instances:
        for device in holding.ids:
            if device < len(free):  # the node may report fewer GPUs than the pod was given
                free[device] += sign * holding.share_milli
    instances = gpus.free_instances
    for place, instance in enumerate(gpus.layout.instances):
        if instance.uuid in holding.instances:
            instances = instances | 1 << place if sign > 0 else instances & ~(1 << place)
    return FreeDevices(gpus.layout, tuple(free), instances)
