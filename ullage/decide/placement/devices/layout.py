"""GPUs of one node for device choice: the devices present (`DeviceLayout`) and their free parts (`FreeDevices`).

Sets of devices are bit masks: bit 3 is GPU 3. A DeviceLayout changes only with the node's inventory and is shared by
all FreeDevices made from it. A FreeDevices is cheap and made for one choice.
"""

from collections.abc import Iterable

import msgspec

from ullage.model.device import MILLI_GPU, MOST_DEVICES, Device, DeviceHealth, Inventory
from ullage.model.units import Bytes

Mask = int


class NvlinkTopology(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """NVLink islands: disjoint sets of GPUs in order of their lowest id. A GPU without links is its own island."""

    islands: tuple[Mask, ...]
    bandwidth: tuple[int, ...]
    """Bandwidth inside each island in GB/s: that of its slowest member."""


class MigPartition(msgspec.Struct, frozen=True, gc=False):
    """One MIG instance."""

    device: int
    uuid: str
    profile: str
    memory: Bytes


class DeviceLayout(msgspec.Struct, frozen=True, gc=False, kw_only=True, cache_hash=True):
    """GPUs of a node, free or not. Tuples are indexed by device id."""

    present: Mask
    healthy: Mask
    partitioned: Mask
    """GPUs split into MIG instances: they are not given whole, nor shared."""
    models: tuple[str, ...]
    memory: tuple[Bytes, ...]
    wiring: NvlinkTopology
    instances: tuple[MigPartition, ...] = ()


class FreeDevices(msgspec.Struct, frozen=True, gc=False):
    """A layout and the parts of its devices that no pod holds."""

    layout: DeviceLayout
    free: tuple[int, ...]
    """Free thousandths of each device, by device id; ids past the end have nothing free."""
    free_instances: Mask = 0
    """Free MIG instances: bits by place in the layout's `instances`."""


def bits(ids: Iterable[int]) -> Mask:
    """The set of these ids."""
    mask = 0
    for device in ids:
        mask |= 1 << device
    return mask


def ids_in(mask: Mask) -> tuple[int, ...]:
    """The ids in a set, ascending."""
    return tuple(device for device in range(mask.bit_length()) if mask >> device & 1)


def roomy(free: tuple[int, ...], least: int) -> Mask:
    """Devices with at least this much free."""
    mask, bit = 0, 1
    for amount in free:
        if amount >= least:
            mask |= bit
        bit <<= 1
    return mask


def layout_of(inventory: Inventory) -> DeviceLayout:
    """Layout of an inventory, as masks. Ids out of range are left out: no Lease can be taken on them."""
    devices = {device.id: device for device in inventory.devices if 0 <= device.id < MOST_DEVICES}
    known = [devices[gpu] for gpu in sorted(devices)]
    size = max(devices, default=-1) + 1
    return DeviceLayout(
        present=bits(devices),
        healthy=bits(device.id for device in known if device.health is DeviceHealth.HEALTHY),
        partitioned=bits(device.id for device in known if device.mig),
        models=tuple(devices[gpu].model if gpu in devices else "" for gpu in range(size)),
        memory=tuple(devices[gpu].memory if gpu in devices else Bytes(0) for gpu in range(size)),
        wiring=_wiring(known),
        instances=tuple(
            MigPartition(device.id, part.uuid, part.profile, part.memory) for device in known for part in device.mig
        ),
    )


def empty_devices(layout: DeviceLayout) -> FreeDevices:
    """Free devices of a node without pods."""
    whole = layout.present & ~layout.partitioned
    free = tuple(MILLI_GPU if whole >> device & 1 else 0 for device in range(len(layout.models)))
    return FreeDevices(layout, free, (1 << len(layout.instances)) - 1)


def _wiring(devices: list[Device]) -> NvlinkTopology:
    members: dict[str, list[Device]] = {}
    for device in devices:
        members.setdefault(device.island or f"alone {device.id}", []).append(device)
    return NvlinkTopology(
        tuple(bits(device.id for device in island) for island in members.values()),
        tuple(min(device.bandwidth for device in island) for island in members.values()),
    )
