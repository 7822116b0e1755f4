"""Reservation keeping: a leased GPU that a DRA driver publishes stays withheld from kube-scheduler.

A bind withholds its GPUs itself. While a Lease stands, this loop makes its reservation again where it was emptied or is
missing, as for GPUs that were leased before a driver published them. When a Lease is gone, the garbage collector
deletes its reservation, and this loop lets it go. Several may run at once: the watch only says what to check.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import structlog

from ullage.act.concurrency import each
from ullage.act.device_reservations import DeviceReservations, NotReserved
from ullage.clock import Clock
from ullage.errors import ApiError, LeadershipLost
from ullage.model.dra import WithheldGpu
from ullage.model.fact_event import FactEvent
from ullage.model.lease import GpuLease
from ullage.model.units import Instant, Seconds
from ullage.runtime import Pacing, Wakeup, run_reconciler, seconds_until
from ullage.state.unreserved import Published, UnreservedLeases

RETRY = Seconds(15.0)
"""Seconds until a Lease is tried again whose GPU another ResourceClaim has, or for which the API could not be asked."""

AT_ONCE = 64
"""Leases reserved with one list of ResourceClaims."""
RELEASED_AT_ONCE = 8

_log = structlog.get_logger("scheduler")


class ReservationKeeping:
    """Feed `observe` with the events of informers, after the snapshot has taken them in; and `run` it."""

    pacing = Pacing()

    def __init__(
        self,
        reservations: DeviceReservations,
        clock: Clock,
        published: Published,
        *,
        on_restored: Callable[[GpuLease], None] = lambda _: None,
    ) -> None:
        self._reservations = reservations
        self._clock = clock
        self._on_restored = on_restored
        self._leases = UnreservedLeases(reservations.namespace, published)
        self._reported: dict[str, str] = {}
        """Words last logged about each Lease that could not be reserved."""
        self._wakeup = Wakeup()

    def observe(self, event: FactEvent[Any]) -> None:
        """Take in an event of an informer. Events of other sources are ignored."""
        before = self._leases.next_due()
        self._leases.apply(event, now=self._clock.now())
        if self._leases.next_due() != before:
            self._wakeup.set()

    async def run(self) -> None:
        """Run until cancelled."""
        await run_reconciler(self, self._wakeup, self._clock)

    def longest_wait(self) -> float | None:
        return seconds_until(self._leases.next_due(), self._clock.now())

    async def reconcile(self) -> bool:
        """Reserve what is due, some at a time: each time costs one list of ResourceClaims."""
        due = self._leases.take_due(now=self._clock.now())
        for first in range(0, len(due), AT_ONCE):
            await self._restore(due[first : first + AT_ONCE])
        await each(self._leases.take_left(now=self._clock.now()), self._release, at_once=RELEASED_AT_ONCE)
        return False

    async def _release(self, name: str) -> None:
        with suppress(ApiError, LeadershipLost):  # it comes again
            await self._reservations.release(name)

    async def _restore(self, leased: Sequence[tuple[GpuLease, WithheldGpu]]) -> None:
        later = self._clock.now() + RETRY
        try:
            outcomes = await self._reservations.restore(leased)
        except (ApiError, LeadershipLost) as error:
            for lease, _ in leased:
                self._leases.postpone(lease.name, until=Instant(later))
            self._report_once(leased[0][0], f"a leased GPU is not withheld from ResourceClaims: {error}")
            return
        for outcome in outcomes:
            lease = outcome.lease
            if isinstance(outcome, NotReserved):
                self._leases.postpone(lease.name, until=Instant(later))
                self._report_once(lease, f"a leased GPU was allocated to ResourceClaim {outcome.by}, too")
                continue
            self._reported.pop(lease.name, None)
            _log.warning("leased GPU withheld from ResourceClaims again", node=lease.node, gpu=lease.device)
            self._on_restored(lease)

    def _report_once(self, lease: GpuLease, words: str) -> None:
        if self._reported.get(lease.name) != words:
            self._reported[lease.name] = words
            _log.error(words, lease=lease.name, node=lease.node, gpu=lease.device)
