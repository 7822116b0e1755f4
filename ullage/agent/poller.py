"""GpuPoller: scans the GPUs, finds the pods of their processes and updates the known GPUs. No API calls."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ullage.agent.gpu_reader import GpuReader
from ullage.agent.processes import ProcFs
from ullage.clock import Clock, Instant
from ullage.decide.inventory.gpu_readings import GpuProcess, GpuReading, GpuScan
from ullage.decide.inventory.known_gpus import KnownGpus, update_known_gpus
from ullage.model.device import DeviceHealth

INFRASTRUCTURE = ("nvidia-cuda-mps", "nvidia-persiste", "nv-hostengine", "dcgm-exporter", "nvidia-smi", "Xorg")
"""Host processes that belong on GPUs, as `/proc` shortens their names."""

Given = Mapping[int, Collection[str]]
NOBODY: Given = {}

_MOST_XIDS = 32


@dataclass(frozen=True, slots=True)
class PollResult:
    """Result of one poll."""

    known_gpus: KnownGpus
    look: GpuScan
    at: Instant
    occupants: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    """Processes by GPU id, each with the uid of its pod; empty for a process of the host."""

    def sight(self, uuid: str) -> GpuReading | None:
        """Reading of this GPU in the scan; None if it has none."""
        return next((sight for sight in self.look.readings if sight.uuid == uuid), None)


class GpuPoller:
    """Remembers from poll to poll: known GPUs, their Xids, and the last processes of GPUs that do not answer now."""

    def __init__(
        self, reader: GpuReader, proc: ProcFs, clock: Clock, *, belongs: Collection[str] = INFRASTRUCTURE
    ) -> None:
        self._reader = reader
        self._proc = proc
        self._clock = clock
        self._belongs = frozenset(belongs)
        self._xids: dict[str, tuple[int, ...]] = {}
        self._last_seen: dict[str, tuple[GpuProcess, ...]] = {}
        self.known_gpus = KnownGpus()

    def record_xid(self, uuid: str, xid: int) -> None:
        """The driver reported an Xid of this GPU."""
        known = self._xids.get(uuid, ())
        if xid not in known and len(known) < _MOST_XIDS:
            self._xids[uuid] = (*known, xid)

    async def look(self, *, thorough: bool, given: Given = NOBODY) -> PollResult:
        """Poll all GPUs. The scan is thorough in any case while a field that should be known is not.

        `given` are uids of pods that a device plugin gave a GPU to, by GPU id: they use it, whatever runs there.
        """
        nameless = any(
            item.card is None and item.device.health is DeviceHealth.HEALTHY for item in self.known_gpus.items
        )
        seen = await self._reader.look(thorough=thorough or nameless or not self.known_gpus.items)
        at = self._clock.now()
        for sight in seen.readings:
            if sight.vitals is not None:
                self._last_seen[sight.uuid] = sight.vitals.processes
        # A GPU that no longer answers may still be in use: its last known processes count while they live.
        owners = {uuid: self._owners(processes) for uuid, processes in self._last_seen.items()}
        users = {uuid: {uid for uid in pids.values() if uid} for uuid, pids in owners.items()}
        for device in self.known_gpus.devices:
            if device.id in given:
                users.setdefault(device.uuid, set()).update(given[device.id])
        self.known_gpus = update_known_gpus(
            self.known_gpus, seen, xids=self._xids, users={uuid: tuple(uids) for uuid, uids in users.items()}
        )
        ids = {device.uuid: device.id for device in self.known_gpus.devices}
        occupants = {ids[uuid]: pids for uuid, pids in owners.items() if uuid in ids and pids}
        return PollResult(self.known_gpus, seen, at, occupants)

    def _owners(self, processes: tuple[GpuProcess, ...]) -> dict[int, str]:
        found = {}
        for process in processes:
            owner = self._proc.owner(process.pid)
            if owner or (owner is not None and self._proc.name(process.pid) not in self._belongs):
                found[process.pid] = owner
        return found
