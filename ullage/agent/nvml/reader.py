"""NvmlReader: scans all GPUs through NVML. One thread per GPU, so that one that hangs hides no other."""

import asyncio
import ctypes
from typing import Any

from ullage.agent.blocking_call import BlockingCallThread, CallTimedOut
from ullage.agent.gpu_reader import OnXid
from ullage.agent.nvml.device import bus_id, read_card, read_vitals
from ullage.agent.nvml.library import Handle, Nvml, load, optional, start, text
from ullage.agent.nvml.xids import XidListener
from ullage.decide.inventory.gpu_readings import GpuInfo, GpuReadError, GpuReading, GpuScan
from ullage.errors import UserError

START_LIMIT = 30.0
"""Seconds. Without persistence mode the driver initialises every GPU first."""
LOOK_LIMIT = 2.0
"""Seconds a GPU may take to answer. With a poll every two seconds, one that hangs is known within four."""


class _Slot:
    """One index under which the driver lists a GPU."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.lane = BlockingCallThread(f"gpu {index}")
        self.handle: Handle | None = None
        self.bus = ""
        self.uuid = ""
        self.refused: Any = None
        """The driver's error, where it gave no handle."""


class NvmlReader:
    """A `GpuReader`. Make it with `open`."""

    def __init__(self, nvml: Nvml, driver: BlockingCallThread, *, limit: float = LOOK_LIMIT) -> None:
        self._nvml = nvml
        self._driver = driver
        self._limit = limit
        self._slots: list[_Slot] = []
        self._listener: XidListener | None = None
        self.version = ""

    @classmethod
    async def open(cls, *, limit: float = LOOK_LIMIT) -> "NvmlReader":
        """Start the library. Raises UserError where there is no driver, or it does not answer."""
        nvml, driver = load(), BlockingCallThread("nvml")
        reader = cls(nvml, driver, limit=limit)
        try:
            reader.version = await driver.call(lambda: start(nvml), START_LIMIT)
            await driver.call(reader._list, START_LIMIT)
        except CallTimedOut as silent:
            raise UserError(f"the NVIDIA driver does not answer ({silent}); look at dmesg for Xid errors") from silent
        except nvml.NVMLError as error:
            raise UserError(f"the NVIDIA driver does not list its GPUs ({error}); look at nvidia-smi") from error
        return reader

    async def look(self, *, thorough: bool) -> GpuScan:
        try:
            if thorough:
                await self._driver.call(self._list, self._limit)
        except CallTimedOut as silent:
            return GpuScan(trouble=f"the driver gives {silent}", silent=True)
        except self._nvml.NVMLError as error:
            return GpuScan(trouble=f"the driver says: {error}")
        return GpuScan(tuple(await asyncio.gather(*(self._see(slot, thorough) for slot in self._slots))))

    def listen(self, on_xid: OnXid) -> None:
        # A handle is a pointer: it identifies the GPU of an event even when the GPU itself no longer answers.
        handles = {_address(slot.handle): slot for slot in self._slots if slot.handle is not None}

        def on_event(address: int | None, xid: int) -> None:
            told = [handles[address]] if address in handles else self._slots
            for slot in told:
                on_xid(self._name(slot), xid)

        registered = [slot.handle for slot in self._slots if slot.handle is not None]
        self._listener = XidListener(self._nvml, registered, asyncio.get_running_loop(), on_event)

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.stop()
            await asyncio.sleep(0)
        for lane in (self._driver, *(slot.lane for slot in self._slots)):
            lane.close()

    def _list(self) -> None:
        """Find GPUs that have not been found yet. Blocking."""
        nvml = self._nvml
        for index in range(len(self._slots), nvml.nvmlDeviceGetCount()):
            self._slots.append(_Slot(index))
        for slot in self._slots:
            if slot.handle is None:
                self._reach(slot)

    def _reach(self, slot: _Slot) -> None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(slot.index)
            slot.bus = optional(nvml, bus_id, nvml, handle) or ""
            slot.uuid = text(nvml.nvmlDeviceGetUUID(handle))
            slot.handle, slot.refused = handle, None
        except nvml.NVMLError as error:
            slot.refused = error

    def _name(self, slot: _Slot) -> str:
        return slot.uuid or f"unread-{slot.index}"

    async def _see(self, slot: _Slot, thorough: bool) -> GpuReading:
        if slot.handle is None:
            return self._unseen(slot, slot.refused)
        nvml, handle = self._nvml, slot.handle
        try:
            vitals = await slot.lane.call(lambda: read_vitals(nvml, handle), self._limit)
            card = await self._card(slot, handle) if thorough else None
        except CallTimedOut as silent:
            return GpuReading(uuid=self._name(slot), trouble=GpuReadError.SILENT, detail=str(silent))
        except nvml.NVMLError as error:
            return self._unseen(slot, error)
        return GpuReading(uuid=self._name(slot), card=card, vitals=vitals)

    async def _card(self, slot: _Slot, handle: Handle) -> GpuInfo | None:
        """None if it takes too long this time. Should it hang, the next scan finds its thread stuck."""
        others = [(other.bus, other.handle) for other in self._slots if other is not slot and other.handle is not None]
        try:
            return await slot.lane.call(lambda: read_card(self._nvml, handle, others), self._limit)
        except CallTimedOut:
            return None

    def _unseen(self, slot: _Slot, error: Any) -> GpuReading:
        troubles = {
            self._nvml.NVML_ERROR_GPU_IS_LOST: GpuReadError.LOST,
            self._nvml.NVML_ERROR_RESET_REQUIRED: GpuReadError.RESET_REQUIRED,
        }
        trouble = troubles.get(getattr(error, "value", None), GpuReadError.UNREADABLE)
        return GpuReading(uuid=self._name(slot), trouble=trouble, detail=str(error))


def _address(handle: Handle) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
