"""Taking stock: what was known of a node's GPUs and what was seen now make what is reported. Nothing gets lost.

A GPU keeps the id it was first given, because Leases are named after it: ids belong to UUIDs. One that is no longer
seen stays in the report, unhealthy. What a look could not see keeps its last known looks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ullage.decide.inventory.health import Finding, health_of
from ullage.decide.inventory.islands import Place, places
from ullage.decide.inventory.sights import Card, Look, Sight, Trouble
from ullage.model.device import MOST_DEVICES, Device, Health, Inventory

UNNAMED_MODEL = "unknown"
"""Of a GPU that never said what it is."""

NO_USERS: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class Item:
    """One GPU as it is reported, and what the report leaves out."""

    device: Device
    card: Card | None = None
    why: str = ""
    """Why it is not healthy."""


@dataclass(frozen=True, slots=True)
class Stock:
    """All GPUs of a node, by id."""

    items: tuple[Item, ...] = ()
    ids: Mapping[str, int] = field(default_factory=dict)
    """By UUID, also of GPUs that are not here now but were once."""
    left_out: int = 0
    """GPUs beyond the most a node may have."""

    @property
    def devices(self) -> tuple[Device, ...]:
        return tuple(item.device for item in self.items)


def remembered(report: Inventory, *, same_boot: bool) -> Stock:
    """The stock an earlier agent of this node reported. After a reboot only the ids of its GPUs count."""
    ids = {device.uuid: device.id for device in report.devices}
    return Stock(tuple(Item(device) for device in report.devices) if same_boot else (), ids)


def take_stock(
    before: Stock,
    look: Look,
    *,
    xids: Mapping[str, Sequence[int]],
    users: Mapping[str, tuple[str, ...]] = NO_USERS,
) -> Stock:
    """What to report now. `xids` and `users` (uids of pods with processes on it) are by the UUID of the GPU.

    A GPU that is not among the keys of `users` has the users it had: nobody could look.
    """
    known = {item.device.uuid: item for item in before.items}
    sights = _sights(known, look)
    ids = _numbered(before.ids, sights)
    cards = {uuid: card for uuid in ids if (card := _card(sights[uuid], known.get(uuid))) is not None}
    where = places({ids[uuid]: card for uuid, card in cards.items()})
    items = []
    for uuid in sorted(ids, key=ids.__getitem__):
        found = health_of(sights[uuid], xids.get(uuid, ()))
        if look.trouble:
            found = _unknown(known[uuid], look.trouble)
        card = cards.get(uuid)
        before_it = known[uuid].device.in_use_by if uuid in known else ()
        seen_by = tuple(sorted(users.get(uuid, before_it)))
        device = _device(ids[uuid], uuid, card, where, known.get(uuid))
        items.append(Item(replace(device, health=found.health, in_use_by=seen_by), card, found.why))
    return Stock(tuple(items), {**before.ids, **ids}, len(sights) - len(ids))


def unwell(stock: Stock) -> str:
    """Which GPUs are not healthy and why, in words; empty if all are."""
    said = [f"GPU {item.device.id}: {item.why}" for item in stock.items if item.device.health is not Health.HEALTHY]
    if stock.left_out:
        said.append(f"{stock.left_out} more GPUs are left out: a node may have {MOST_DEVICES}")
    return "; ".join(said)


def newly_unwell(before: Stock, after: Stock) -> tuple[Item, ...]:
    """GPUs that were healthy, or not there, and are not healthy now."""
    well = {item.device.uuid for item in before.items if item.device.health is Health.HEALTHY}
    known = {item.device.uuid for item in before.items}
    return tuple(
        item
        for item in after.items
        if item.device.health is not Health.HEALTHY and (item.device.uuid in well or item.device.uuid not in known)
    )


def _sights(known: Mapping[str, Item], look: Look) -> dict[str, Sight]:
    """What was seen, and what should have been. What never said its name is not missed when it is gone."""
    seen = {} if look.trouble else {sight.uuid: sight for sight in look.sights}
    named = (uuid for uuid, item in known.items() if item.device.model != UNNAMED_MODEL or look.trouble)
    return {uuid: Sight(uuid=uuid, trouble=Trouble.MISSING) for uuid in named} | seen


def _numbered(pinned: Mapping[str, int], uuids: Iterable[str]) -> dict[str, int]:
    """Ids: those that were given before, unless somebody earlier in the order has it now; else the lowest free one."""
    wanted, ids = list(uuids), dict[str, int]()
    for uuid in wanted:
        if uuid in pinned and pinned[uuid] not in ids.values():
            ids[uuid] = pinned[uuid]
    free = iter(sorted(set(range(MOST_DEVICES)) - set(ids.values())))
    for uuid in wanted:
        if uuid not in ids and (gpu := next(free, None)) is not None:
            ids[uuid] = gpu
    return ids


def _card(sight: Sight, known: Item | None) -> Card | None:
    return sight.card or (known.card if known is not None else None)


def _device(gpu: int, uuid: str, card: Card | None, where: Mapping[int, Place], known: Item | None) -> Device:
    if card is None and known is not None:
        return replace(known.device, id=gpu)
    if card is None:
        return Device(id=gpu, uuid=uuid, model=UNNAMED_MODEL, memory=0)
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


def _unknown(item: Item, trouble: str) -> Finding:
    """Nothing can be said of it now. What was broken is not thought to be repaired."""
    if item.device.health is Health.UNHEALTHY:
        return Finding(Health.UNHEALTHY, item.why)
    return Finding(Health.UNKNOWN, trouble)
