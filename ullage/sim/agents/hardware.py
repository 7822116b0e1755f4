"""GPUs of a simulated node, built so that an agent reads from them the inventory the node was given."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ullage.agent.gpu_reader import OnXid
from ullage.agent.processes import ProcFs
from ullage.decide.inventory.gpu_readings import (
    GpuErrorCounters,
    GpuInfo,
    GpuProcess,
    GpuReadError,
    GpuReading,
    GpuSample,
    GpuScan,
    Nvlink,
    NvlinkPeerType,
)
from ullage.model.device import Device, DeviceHealth, Inventory
from ullage.model.units import Bytes

_FELL_OFF = 79
_RECOVERY_ACTION_CHANGED = 154
"""Xid that is no fault of the GPU. It only makes the agent read its GPUs at once."""

_IDLE = GpuSample(counters=GpuErrorCounters(uncorrected_now=0), utilisation=0, memory_used=Bytes(0))
_TROUBLES: Mapping[DeviceHealth, GpuReadError] = {
    DeviceHealth.UNHEALTHY: GpuReadError.LOST,
    DeviceHealth.UNKNOWN: GpuReadError.UNREADABLE,
}


def cards_of(inventory: Inventory) -> tuple[GpuInfo, ...]:
    """GPUs from which the agent reads what the inventory says: models, memory, islands, bandwidth, MIG instances."""
    switched = {device.island for device in inventory.devices} == {inventory.devices[0].island}
    return tuple(_card(device, inventory.devices, switched) for device in inventory.devices)


def _card(device: Device, gpu_set: Sequence[Device], switched: bool) -> GpuInfo:
    mates = [other for other in gpu_set if other.id != device.id and device.island and other.island == device.island]
    links = [Nvlink(NvlinkPeerType.GPU, _bus(other.id)) for other in mates]
    return GpuInfo(
        uuid=device.uuid,
        bus_id=_bus(device.id),
        model=device.model,
        memory=device.memory,
        links=(Nvlink(NvlinkPeerType.SWITCH),) if mates and switched else tuple(links),
        link_rate=(device.bandwidth or 1) if mates else 0,
        partitioned=bool(device.mig),
        mig=device.mig,
    )


def _bus(gpu: int) -> str:
    return f"00000000:{gpu + 1:02X}:00.0"


Users = Callable[[], Mapping[str, Collection[str]]]
"""Uids of the pods that use each GPU or MIG instance of a node, by UUID."""


class SimulatedProcesses(ProcFs):
    """Processes of a simulated node: one for each pod that uses a GPU. A process that is over keeps its number."""

    def __init__(self, users: Users) -> None:
        super().__init__()
        self._users = users
        self._pids: dict[str, int] = {}

    def of(self, card: GpuInfo) -> tuple[GpuProcess, ...]:
        """Processes on a GPU and on its MIG instances."""
        users = self._users()
        names = (card.uuid, *(one.uuid for one in card.mig))
        uids = sorted({uid for name in names for uid in users.get(name, ())})
        return tuple(GpuProcess(self._pids.setdefault(uid, len(self._pids) + 1)) for uid in uids)

    def owner(self, pid: int) -> str | None:
        living = {uid for uids in self._users().values() for uid in uids}
        return next((uid for uid, one in self._pids.items() if one == pid and uid in living), None)

    def name(self, pid: int) -> str:
        return f"simulated-{pid}"


class SimulatedGpus:
    """A `GpuReader` with GPUs whose health can be changed."""

    def __init__(self, inventory: Inventory, processes: SimulatedProcesses) -> None:
        self._processes = processes
        self._cards = {device.id: card for device, card in zip(inventory.devices, cards_of(inventory), strict=True)}
        self._troubles: dict[int, GpuReadError] = {}
        self._on_xid: OnXid = lambda _uuid, _xid: None

    @property
    def ill(self) -> bool:
        """True if any GPU of the node is not healthy."""
        return bool(self._troubles)

    async def look(self, *, thorough: bool) -> GpuScan:
        return GpuScan(tuple(self._see(gpu, card, thorough) for gpu, card in self._cards.items()))

    def listen(self, on_xid: OnXid) -> None:
        self._on_xid = on_xid

    async def close(self) -> None:
        return None

    def nudge(self) -> None:
        """Make the agent read its GPUs now."""
        self._on_xid(next(iter(self._cards.values())).uuid, _RECOVERY_ACTION_CHANGED)

    def becomes(self, gpu: int, health: DeviceHealth) -> None:
        """Change the health of a GPU.

        An unhealthy GPU raises an Xid; other changes make the agent read its GPUs now.
        """
        if health is DeviceHealth.HEALTHY:
            self._troubles.pop(gpu, None)
        else:
            self._troubles[gpu] = _TROUBLES[health]
        self._on_xid(self._cards[gpu].uuid, _FELL_OFF if health is DeviceHealth.UNHEALTHY else _RECOVERY_ACTION_CHANGED)

    def _see(self, gpu: int, card: GpuInfo, thorough: bool) -> GpuReading:
        if gpu in self._troubles:
            return GpuReading(uuid=card.uuid, trouble=self._troubles[gpu])
        found = self._processes.of(card)
        vitals = replace(_IDLE, processes=found) if found else _IDLE
        return GpuReading(uuid=card.uuid, card=card if thorough else None, vitals=vitals)
