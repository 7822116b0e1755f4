"""One node's GPUs as a choice sees them: what is there (`DeviceLayout`) and what of it is free (`DeviceBoard`).

Sets of devices are bit masks: bit 3 is GPU 3. A layout changes only with the node's inventory and is shared by all
boards made from it; a board is cheap and made for one question.
"""

from collections.abc import Iterable

import msgspec

from ullage.model.device import MILLI_GPU, MOST_DEVICES, Device, Health, Inventory

Mask = int


class Wiring(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Which GPUs are linked: disjoint islands in order of their lowest id. A GPU that stands alone is an island."""

    islands: tuple[Mask, ...]
    bandwidth: tuple[int, ...]
    """GB/s inside each island: that of its slowest member."""


class Instance(msgspec.Struct, frozen=True, gc=False):
    """One MIG instance."""

    device: int
    uuid: str
    profile: str
    memory: int


class DeviceLayout(msgspec.Struct, frozen=True, gc=False, kw_only=True, cache_hash=True):
    """The GPUs of a node, free or not. Tuples are indexed by device gpu."""

    present: Mask
    healthy: Mask
    partitioned: Mask
    """GPUs split into MIG instances: they are not given whole, nor shared."""
    models: tuple[str, ...]
    memory: tuple[int, ...]
    wiring: Wiring
    instances: tuple[Instance, ...] = ()


class DeviceBoard(msgspec.Struct, frozen=True, gc=False):
    """A layout and what of it nobody holds."""

    layout: DeviceLayout
    free: tuple[int, ...]
    """Thousandths of each device, by gpu; ids past the end have nothing free."""
    free_instances: Mask = 0
    """Which of the layout's MIG instances, by their place in it."""


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
    """What an inventory says, as masks. Ids no node can have are left out: no Lease could be taken on them."""
    devices = {device.id: device for device in inventory.devices if 0 <= device.id < MOST_DEVICES}
    known = [devices[gpu] for gpu in sorted(devices)]
    size = max(devices, default=-1) + 1
    return DeviceLayout(
        present=bits(devices),
        healthy=bits(device.id for device in known if device.health is Health.HEALTHY),
        partitioned=bits(device.id for device in known if device.mig),
        models=tuple(devices[gpu].model if gpu in devices else "" for gpu in range(size)),
        memory=tuple(devices[gpu].memory if gpu in devices else 0 for gpu in range(size)),
        wiring=_wiring(known),
        instances=tuple(
            Instance(device.id, part.uuid, part.profile, part.memory) for device in known for part in device.mig
        ),
    )


def empty_board(layout: DeviceLayout) -> DeviceBoard:
    """The board of a node nobody uses yet."""
    whole = layout.present & ~layout.partitioned
    free = tuple(MILLI_GPU if whole >> device & 1 else 0 for device in range(len(layout.models)))
    return DeviceBoard(layout, free, (1 << len(layout.instances)) - 1)


def _wiring(devices: list[Device]) -> Wiring:
    members: dict[str, list[Device]] = {}
    for device in devices:
        members.setdefault(device.island or f"alone {device.id}", []).append(device)
    return Wiring(
        tuple(bits(device.id for device in island) for island in members.values()),
        tuple(min(device.bandwidth for device in island) for island in members.values()),
    )
