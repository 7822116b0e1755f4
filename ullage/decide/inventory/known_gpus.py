"""Known GPUs of a node: the last known ones merged with a new scan into the inventory that is reported.

A GPU keeps the id it was first given, because Leases are named after it: ids belong to UUIDs. One that the driver no
longer lists stays in the inventory, unhealthy. Fields that a scan could not read keep their last known values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ullage.decide.inventory.gpu_readings import GpuInfo, GpuReadError, GpuReading, GpuScan
from ullage.decide.inventory.health import HealthFinding, health_of
from ullage.decide.inventory.islands import IslandPosition, places
from ullage.model.device import MOST_DEVICES, Device, DeviceHealth, Inventory
from ullage.model.units import Bytes

UNNAMED_MODEL = "unknown"
"""Model of a GPU that has never reported one."""

NO_USERS: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class KnownGpu:
    """One GPU as it is reported, with the fields the inventory leaves out."""

    device: Device
    card: GpuInfo | None = None
    why: str = ""
    """Reason that it is not healthy."""


@dataclass(frozen=True, slots=True)
class KnownGpus:
    """All GPUs of a node, by id."""

    items: tuple[KnownGpu, ...] = ()
    ids: Mapping[str, int] = field(default_factory=dict)
    """Ids by UUID, also of GPUs that were here once and are not now."""
    left_out: int = 0
    """GPUs beyond the most a node may have."""

    @property
    def devices(self) -> tuple[Device, ...]:
        return tuple(item.device for item in self.items)


def remembered(report: Inventory, *, same_boot: bool) -> KnownGpus:
    """Known GPUs as an earlier agent of this node reported them. After a reboot only the ids count."""
    ids = {device.uuid: device.id for device in report.devices}
    return KnownGpus(tuple(KnownGpu(device) for device in report.devices) if same_boot else (), ids)


def update_known_gpus(
    before: KnownGpus,
    look: GpuScan,
    *,
    xids: Mapping[str, Sequence[int]],
    users: Mapping[str, tuple[str, ...]] = NO_USERS,
) -> KnownGpus:
    """Merge a scan into the known GPUs. `xids` and `users` (uids of pods with processes on it) are by UUID of the GPU.

    A GPU that is not among the keys of `users` keeps its users: its processes could not be read.
    """
    known = {item.device.uuid: item for item in before.items}
    readings = _readings(known, look)
    ids = _numbered(before.ids, readings)
    cards = {uuid: card for uuid in ids if (card := _card(readings[uuid], known.get(uuid))) is not None}
    where = places({ids[uuid]: card for uuid, card in cards.items()})
    items = []
    for uuid in sorted(ids, key=ids.__getitem__):
        found = health_of(readings[uuid], xids.get(uuid, ()))
        if look.trouble:
            found = _unknown(known[uuid], look.trouble)
        card = cards.get(uuid)
        before_it = known[uuid].device.in_use_by if uuid in known else ()
        seen_by = tuple(sorted(users.get(uuid, before_it)))
        device = _device(ids[uuid], uuid, card, where, known.get(uuid))
        items.append(KnownGpu(replace(device, health=found.health, in_use_by=seen_by), card, found.why))
    return KnownGpus(tuple(items), {**before.ids, **ids}, len(readings) - len(ids))


def unwell(known_gpus: KnownGpus) -> str:
    """GPUs that are not healthy, each with its reason, as text; empty if all are healthy."""
    said = [
        f"GPU {item.device.id}: {item.why}"
        for item in known_gpus.items
        if item.device.health is not DeviceHealth.HEALTHY
    ]
    if known_gpus.left_out:
        said.append(f"{known_gpus.left_out} more GPUs are left out: a node may have {MOST_DEVICES}")
    return "; ".join(said)


def newly_unwell(before: KnownGpus, after: KnownGpus) -> tuple[KnownGpu, ...]:
    """GPUs that were healthy or absent before, and are not healthy now."""
    well = {item.device.uuid for item in before.items if item.device.health is DeviceHealth.HEALTHY}
    known = {item.device.uuid for item in before.items}
    return tuple(
        item
        for item in after.items
        if item.device.health is not DeviceHealth.HEALTHY
        and (item.device.uuid in well or item.device.uuid not in known)
    )


def _readings(known: Mapping[str, KnownGpu], look: GpuScan) -> dict[str, GpuReading]:
    """Readings by UUID, with MISSING for known GPUs that were not listed. A GPU without a known model is not missed."""
    seen = {} if look.trouble else {sight.uuid: sight for sight in look.readings}
    named = (uuid for uuid, item in known.items() if item.device.model != UNNAMED_MODEL or look.trouble)
    return {uuid: GpuReading(uuid=uuid, trouble=GpuReadError.MISSING) for uuid in named} | seen


def _numbered(pinned: Mapping[str, int], uuids: Iterable[str]) -> dict[str, int]:
    """Ids by UUID: the former id, unless an earlier GPU in the order has it now; else the lowest free one."""
    wanted, ids = list(uuids), dict[str, int]()
    for uuid in wanted:
        if uuid in pinned and pinned[uuid] not in ids.values():
            ids[uuid] = pinned[uuid]
    free = iter(sorted(set(range(MOST_DEVICES)) - set(ids.values())))
    for uuid in wanted:
        if uuid not in ids and (gpu := next(free, None)) is not None:
            ids[uuid] = gpu
    return ids


def _card(sight: GpuReading, known: KnownGpu | None) -> GpuInfo | None:
    return sight.card or (known.card if known is not None else None)


def _device(
    gpu: int, uuid: str, card: GpuInfo | None, where: Mapping[int, IslandPosition], known: KnownGpu | None
) -> Device:
    if card is None and known is not None:
        return replace(known.device, id=gpu)
    if card is None:
        return Device(id=gpu, uuid=uuid, model=UNNAMED_MODEL, memory=Bytes(0))
    place = where[gpu]
    return Device(
        id=gpu,
        uuid=uuid,
        model=card.model,
        memory=card.memory,
        island=place.island,
        bandwidth=place.bandwidth,
        peers=place.peers,
        mig=card.mig,
    )


def _unknown(item: KnownGpu, trouble: str) -> HealthFinding:
    """Health unknown: the driver could not be asked. A GPU that was unhealthy is not taken for repaired."""
    if item.device.health is DeviceHealth.UNHEALTHY:
        return HealthFinding(DeviceHealth.UNHEALTHY, item.why)
    return HealthFinding(DeviceHealth.UNKNOWN, trouble)
