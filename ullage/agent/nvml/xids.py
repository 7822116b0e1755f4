"""XidListener: receives Xid events in a thread of its own, because waiting for one blocks."""

import asyncio
import ctypes
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from ullage.agent.nvml.library import Handle, Nvml, optional

WAIT_MILLISECONDS = 500
"""Length of one wait, and so the longest time that stopping takes."""

OnXidEvent = Callable[[int | None, int], None]
"""Called in the event loop with the address of the GPU's handle (None: any GPU) and the Xid."""


class XidListener:
    """Listens from its creation until stopped."""

    def __init__(
        self, nvml: Nvml, handles: Sequence[Handle], loop: asyncio.AbstractEventLoop, on_event: OnXidEvent
    ) -> None:
        self._nvml = nvml
        self._handles = handles
        self._loop = loop
        self._on_event = on_event
        self._stopped = threading.Event()
        threading.Thread(target=self._listen, name="xids", daemon=True).start()

    def stop(self) -> None:
        """Report nothing more. The thread ends within one wait."""
        self._stopped.set()

    def _listen(self) -> None:
        nvml = self._nvml
        try:
            events = nvml.nvmlEventSetCreate()
            for handle in self._handles:
                # One GPU that cannot be listened to is no reason not to listen to the others.
                with suppress(nvml.NVMLError):
                    nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError:
            return  # polls will find what events do not report
        while not self._stopped.is_set():
            self._wait(events)
        optional(nvml, nvml.nvmlEventSetFree, events)

    def _wait(self, events: object) -> None:
        nvml = self._nvml
        try:
            event = nvml.nvmlEventSetWait(events, WAIT_MILLISECONDS)
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_TIMEOUT:
                self._stopped.wait(WAIT_MILLISECONDS / 1000)  # no busy loop on a failing driver
            return
        if event.eventType == nvml.nvmlEventTypeXidCriticalError and not self._stopped.is_set():
            with suppress(RuntimeError):  # the loop is gone
                address = ctypes.cast(event.device, ctypes.c_void_p).value
                self._loop.call_soon_threadsafe(self._on_event, address, int(event.eventData))
