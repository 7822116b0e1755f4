"""Migrations of VMs: what VmCore intends is performed and settled. Wakes on a change or at the core's next deadline."""

import asyncio

import structlog

from ullage.act.vms import VmActuator
from ullage.clock import Clock
from ullage.decide.vms.core import VmCore
from ullage.kube.client.api import KubeApi
from ullage.model.units import Instant
from ullage.model.vm_intents import VmIntentRefused, VmIntentUnknown

_log = structlog.get_logger("vms")
PAUSE = 1.0
"""Seconds between two plans at least: changes come in bursts."""


class VmLoop:
    """VmLoop: runs beside the permit handler on the same core. `wake` is for code that changes a fact."""

    def __init__(self, core: VmCore, api: KubeApi, clock: Clock, *, pause: float = PAUSE) -> None:
        self._core = core
        self._actuator = VmActuator(api)
        self._clock = clock
        self._pause = pause
        self._changed = asyncio.Event()
        self._changed.set()

    def wake(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self._wait()
            self._changed.clear()
            await self.reconcile()
            await asyncio.sleep(self._pause)

    async def reconcile(self) -> None:
        """Perform what is intended now, one after another: there are few, and each changes what the next sees."""
        for intent in self._core.next_intents(now=Instant(self._clock.now())):
            outcome = await self._actuator.perform(intent)
            self._core.settle(outcome)
            if isinstance(outcome, VmIntentRefused | VmIntentUnknown):
                _log.warning("not done", intent=type(intent).__name__, why=intent.why, detail=outcome.detail)
            else:
                _log.info("done", intent=type(intent).__name__, why=intent.why)

    async def _wait(self) -> None:
        deadline = self._core.next_deadline()
        delay = None if deadline is None else max(0.0, deadline - self._clock.now())
        try:
            async with asyncio.timeout(delay):
                await self._changed.wait()
        except TimeoutError:
            return
