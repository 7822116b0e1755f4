"""The GPUs of a simulated node, built so that an agent finds in them what the node was said to have."""

from collections.abc import Mapping, Sequence

from ullage.agent.reader import OnXid
from ullage.decide.inventory.sights import Card, Counters, FarEnd, Link, Look, Sight, Trouble, Vitals
from ullage.model.device import Device, Health, Inventory

_FELL_OFF = 79
_RECOVERY_ACTION_CHANGED = 154
"""An Xid that says nothing against a GPU: the agent looks at once, and that is all."""

_IDLE = Vitals(counters=Counters(uncorrected_now=0), utilisation=0, memory_used=0)
_TROUBLES: Mapping[Health, Trouble] = {Health.UNHEALTHY: Trouble.LOST, Health.UNKNOWN: Trouble.UNREADABLE}


def cards_of(inventory: Inventory) -> tuple[Card, ...]:
    """GPUs in which the agent finds what the inventory says: models, memory, islands, bandwidth, instances."""
    switched = {device.island for device in inventory.devices} == {inventory.devices[0].island}
    return tuple(_card(device, inventory.devices, switched) for device in inventory.devices)


def _card(device: Device, board: Sequence[Device], switched: bool) -> Card:
    mates = [other for other in board if other.id != device.id and device.island and other.island == device.island]
    links = [Link(FarEnd.GPU, _bus(other.id)) for other in mates]
    return Card(
        uuid=device.uuid,
        bus_id=_bus(device.id),
        model=device.model,
        memory=device.memory,
        links=(Link(FarEnd.SWITCH),) if mates and switched else tuple(links),
        link_rate=(device.bandwidth or 1) if mates else 0,
        partitioned=bool(device.mig),
        mig=device.mig,
    )


def _bus(gpu: int) -> str:
    return f"00000000:{gpu + 1:02X}:00.0"


class Bench:
    """A `GpuReader` on which things can be made to happen."""

    def __init__(self, inventory: Inventory) -> None:
        self._cards = {device.id: card for device, card in zip(inventory.devices, cards_of(inventory), strict=True)}
        self._troubles: dict[int, Trouble] = {}
        self._tell: OnXid = lambda _uuid, _xid: None

    @property
    def ill(self) -> bool:
        """Whether any of its GPUs is not well."""
        return bool(self._troubles)

    async def look(self, *, thorough: bool) -> Look:
        return Look(tuple(self._see(gpu, card, thorough) for gpu, card in self._cards.items()))

    def listen(self, on_xid: OnXid) -> None:
        self._tell = on_xid

    async def close(self) -> None:
        return None

    def nudge(self) -> None:
        """Have the agent look now."""
        self._tell(next(iter(self._cards.values())).uuid, _RECOVERY_ACTION_CHANGED)

    def becomes(self, gpu: int, health: Health) -> None:
        """A GPU dies with an Xid, as they do; what else befalls it is seen at the next look, which is now."""
        if health is Health.HEALTHY:
            self._troubles.pop(gpu, None)
        else:
            self._troubles[gpu] = _TROUBLES[health]
        self._tell(self._cards[gpu].uuid, _FELL_OFF if health is Health.UNHEALTHY else _RECOVERY_ACTION_CHANGED)

    def _see(self, gpu: int, card: Card, thorough: bool) -> Sight:
        if gpu in self._troubles:
            return Sight(uuid=card.uuid, trouble=self._troubles[gpu])
        return Sight(uuid=card.uuid, card=card if thorough else None, vitals=_IDLE)
