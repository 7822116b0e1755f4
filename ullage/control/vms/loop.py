"""Migrations of VMs: what VmCore intends is performed, settled and reported. Wakes on a change or at a deadline."""

from ullage.act.vms import VmActuator
from ullage.clock import Clock
from ullage.control.vms.reporter import VmReporter
from ullage.decide.vms.core import VmCore
from ullage.kube.client.api import KubeApi
from ullage.model.units import Instant, Seconds
from ullage.runtime import Pacing, Wakeup, run_reconciler, seconds_until

PAUSE = Seconds(1.0)
"""Seconds between two plans at least: changes come in bursts."""


class VmLoop:
    """VmLoop: runs beside the permit handler on the same core. `changed` is set when a number of the ledger changes."""

    def __init__(
        self,
        core: VmCore,
        api: KubeApi,
        clock: Clock,
        changed: Wakeup,
        reporter: VmReporter | None = None,
        *,
        pause: float = PAUSE,
    ) -> None:
        self._core = core
        self._actuator = VmActuator(api)
        self._clock = clock
        self._reporter = VmReporter() if reporter is None else reporter
        self._changed = changed
        self.pacing = Pacing(after_run=pause)

    async def run(self) -> None:
        """Run until cancelled."""
        await run_reconciler(self, self._changed, self._clock)

    def longest_wait(self) -> float | None:
        return seconds_until(self._core.next_deadline(), self._clock.now())

    async def reconcile(self) -> bool:
        """Perform what is intended now, one after another: there are few, and each changes what the next sees."""
        for intent in self._core.next_intents(now=Instant(self._clock.now())):
            outcome = await self._actuator.perform(intent)
            self._core.settle(outcome)
            self._reporter.outcome(outcome)
        self._reporter.unrelieved(self._core.unrelieved)
        self._reporter.unreadable(self._core.ledger.unreadable_approvals())
        return False
