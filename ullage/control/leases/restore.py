"""Lease restoring: keeps the GPUs of running pods leased to them when Leases are deleted. Several may run at once.

The watch only says which pods to check; missing Leases are found by fresh reads.
"""

from collections.abc import Callable
from typing import Any

import structlog

from ullage.act.lease_restore import LeaseRestorer, NotRestored, Restored
from ullage.clock import Clock
from ullage.errors import ApiError, LeadershipLost
from ullage.kube.client.resources import LEASES, PODS
from ullage.model.dra import WithheldGpu
from ullage.model.fact_event import FactEvent, Synced
from ullage.model.pod import Pod
from ullage.model.units import Instant, Seconds
from ullage.runtime import Pacing, Wakeup, run_reconciler, seconds_until
from ullage.state.unleased import UnleasedPods

SOURCES = frozenset(resource.id for resource in (PODS, LEASES))
"""Sources that must be synced before a Lease counts as missing."""

RETRY = Seconds(15.0)
"""Seconds until a pod is tried again whose GPU another pod holds, or for which the API could not be asked."""

_log = structlog.get_logger("scheduler")


class LeaseRestoring:
    """Feed `observe` with the events of informers, and `run` it."""

    pacing = Pacing()

    def __init__(
        self,
        restorer: LeaseRestorer,
        clock: Clock,
        *,
        withheld: Callable[[Pod], tuple[WithheldGpu, ...]] = lambda _: (),
        on_restored: Callable[[Restored], None] = lambda _: None,
    ) -> None:
        """`withheld`: which of a pod's GPUs kube-scheduler could give away, too."""
        self._restorer = restorer
        self._clock = clock
        self._withheld = withheld
        self._on_restored = on_restored
        self._pods = UnleasedPods()
        self._reported: set[tuple[str, int, str]] = set()
        self._wakeup = Wakeup()

    def observe(self, event: FactEvent[Any]) -> None:
        """Take in an event of an informer. Events of other sources are ignored."""
        before = len(self._pods)
        self._pods.apply(event, now=self._clock.now())
        if len(self._pods) > before or isinstance(event, Synced):
            self._wakeup.set()

    async def run(self) -> None:
        """Run until cancelled."""
        await run_reconciler(self, self._wakeup, self._clock)

    def longest_wait(self) -> float | None:
        due = self._pods.next_due() if self._pods.synced >= SOURCES else None
        return seconds_until(due, self._clock.now())

    async def reconcile(self) -> bool:
        """Restore what is due."""
        if self._pods.synced >= SOURCES:
            for pod in self._pods.take_due(now=self._clock.now()):
                await self._restore(pod)
        return False

    async def _restore(self, pod: Pod) -> None:
        try:
            outcome = await self._restorer.perform(pod, self._withheld(pod))
        except (ApiError, LeadershipLost) as error:
            self._pods.postpone((pod.uid,), until=Instant(self._clock.now() + RETRY))
            _log.warning("lease not restored", pod=str(pod.key), node=pod.node, error=str(error))
            return
        if isinstance(outcome, NotRestored):
            self._pods.postpone((pod.uid,), until=Instant(self._clock.now() + RETRY))
            self._report_once(outcome)
        elif outcome.devices:
            _log.warning("lease restored", pod=str(pod.key), node=pod.node, gpus=list(outcome.devices))
            self._on_restored(outcome)

    def _report_once(self, outcome: NotRestored) -> None:
        words = (outcome.pod.uid, outcome.device, outcome.by)
        if words not in self._reported:
            self._reported.add(words)
            about = {"pod": str(outcome.pod.key), "node": outcome.pod.node, "gpu": outcome.device, "by": outcome.by}
            _log.error("a running pod's GPU is leased to another pod", **about)
