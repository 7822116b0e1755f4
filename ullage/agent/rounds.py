"""One look after another: what the driver says, whose the processes are, and what is made of both. No API in here."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ullage.agent.processes import ProcFolder
from ullage.agent.reader import GpuReader
from ullage.clock import Clock, Instant
from ullage.decide.inventory.sights import Look, Process, Sight
from ullage.decide.inventory.stock import Stock, take_stock
from ullage.model.device import Health

INFRASTRUCTURE = ("nvidia-cuda-mps", "nvidia-persiste", "nv-hostengine", "dcgm-exporter", "nvidia-smi", "Xorg")
"""Processes of the host that belong on GPUs, as `/proc` shortens their names."""

Given = Mapping[int, Collection[str]]
NOBODY: Given = {}

_MOST_XIDS = 32


@dataclass(frozen=True, slots=True)
class Findings:
    """What one look found."""

    stock: Stock
    look: Look
    at: Instant
    occupants: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    """By GPU id: processes, each with the uid of its pod; empty for one of the host."""

    def sight(self, uuid: str) -> Sight | None:
        """How this GPU was seen."""
        return next((sight for sight in self.look.sights if sight.uuid == uuid), None)


class Rounds:
    """Remembers from look to look: which GPUs there are, their faults, and who was on those that say nothing now."""

    def __init__(
        self, reader: GpuReader, proc: ProcFolder, clock: Clock, *, belongs: Collection[str] = INFRASTRUCTURE
    ) -> None:
        self._reader = reader
        self._proc = proc
        self._clock = clock
        self._belongs = frozenset(belongs)
        self._xids: dict[str, tuple[int, ...]] = {}
        self._last_seen: dict[str, tuple[Process, ...]] = {}
        self.stock = Stock()

    def heard(self, uuid: str, xid: int) -> None:
        """The driver reported an Xid of this GPU."""
        known = self._xids.get(uuid, ())
        if xid not in known and len(known) < _MOST_XIDS:
            self._xids[uuid] = (*known, xid)

    async def look(self, *, thorough: bool, given: Given = NOBODY) -> Findings:
        """Look at everything. What should be known and is not is looked at thoroughly in any case.

        `given` are uids of pods that were given a GPU by others, by its id: they use it, whatever runs there.
        """
        nameless = any(item.card is None and item.device.health is Health.HEALTHY for item in self.stock.items)
        seen = await self._reader.look(thorough=thorough or nameless or not self.stock.items)
        at = self._clock.now()
        for sight in seen.sights:
            if sight.vitals is not None:
                self._last_seen[sight.uuid] = sight.vitals.processes
        # A GPU that says nothing any more may still be used: its last known processes count while they live.
        owners = {uuid: self._owners(processes) for uuid, processes in self._last_seen.items()}
        users = {uuid: {uid for uid in pids.values() if uid} for uuid, pids in owners.items()}
        for device in self.stock.devices:
            if device.id in given:
                users.setdefault(device.uuid, set()).update(given[device.id])
        self.stock = take_stock(
            self.stock, seen, xids=self._xids, users={uuid: tuple(uids) for uuid, uids in users.items()}
        )
        ids = {device.uuid: device.id for device in self.stock.devices}
        occupants = {ids[uuid]: pids for uuid, pids in owners.items() if uuid in ids and pids}
        return Findings(self.stock, seen, at, occupants)

    def _owners(self, processes: tuple[Process, ...]) -> dict[int, str]:
        found = {}
        for process in processes:
            owner = self._proc.owner(process.pid)
            if owner or (owner is not None and self._proc.name(process.pid) not in self._belongs):
                found[process.pid] = owner
        return found
