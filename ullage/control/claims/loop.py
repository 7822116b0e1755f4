"""Claim controller: performs the work items of `ClaimCore`, and wakes it with events and the scheduler's feedback."""

from collections.abc import Callable, Collection
from typing import Any

import structlog

from ullage.act.claim_protection import ClaimProtection
from ullage.act.claims import ClaimCreator, ClaimStatusWriter, QuotaStatusWriter
from ullage.clock import Clock
from ullage.decide.claims.core import CHECKED_AT_A_TIME, ClaimCore
from ullage.decide.claims.work_items import ClaimWorkItem, ClaimWorkKind, fact_of
from ullage.decide.placement.quota import QuotaTable
from ullage.errors import ApiError, Forbidden, LeadershipLost
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.kube.write.gpu import known_claim
from ullage.model.allocation import Allocation
from ullage.model.claim import Claim
from ullage.model.fact_event import Deleted, FactEvent, ObjectKey
from ullage.model.outcomes import ClaimNotCreated, CopyOutcome, RecordOutcome, StatusNotWritten, StatusWriteFailure
from ullage.model.pod import Pod
from ullage.model.refusal import SchedulingFailure
from ullage.runtime import LoopTasks, Pacing, Wakeup, let_others_run, run_reconciler, seconds_until
from ullage.state.snapshot import ClusterSnapshot

SOURCES = frozenset({PODS.id, GPU_CLAIMS.id})
"""Sources that must be synced before any claim is checked."""

WORKERS = 8
"""Work items performed at the same time."""

_log = structlog.get_logger("scheduler")


class ClaimController:
    """Feed `observe` with every event of the scheduler, after the snapshot has taken it in; and `run` it."""

    pacing = Pacing()

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        snapshot: ClusterSnapshot,
        *,
        names: Collection[str],
        quotas: QuotaTable | None = None,
        on_outcome: Callable[[RecordOutcome | CopyOutcome], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._core = ClaimCore(snapshot, frozenset(names), quotas)
        self._claims, self._copies = ClaimStatusWriter(api, clock), ClaimCreator(api)
        self._quotas = QuotaStatusWriter(api, clock)
        self.protection = ClaimProtection(api)
        """Serves the binds, too."""
        self._reported_unprotected = False
        self._tasks = LoopTasks()
        self._wakeup = Wakeup()
        self._on_outcome = on_outcome

    def observe(self, event: FactEvent[Any]) -> None:
        """Take in an event of an informer. Events of other sources are ignored."""
        fact = fact_of(event)
        if isinstance(fact, Claim):
            self.protection.observe(fact.key, None if isinstance(event, Deleted) else fact)
        self._wake_if(self._core.observe(event))

    def reserved(self, pod: ObjectKey, allocation: Allocation | None) -> None:
        """Leases are held for a bind of this pod that is under way, or no longer are."""
        self._wake_if(self._core.reserved(pod, allocation))

    def refused(self, pod: ObjectKey, uid: str, why: SchedulingFailure) -> None:
        """The pod gets no place now."""
        self._wake_if(self._core.refused(pod, uid, why, now=self._clock.now()))

    def refusal_of(self, pod: Pod) -> SchedulingFailure | None:
        """Return this pod's last scheduling failure, while it is current."""
        return self._core.refusal_of(pod)

    async def run(self) -> None:
        """Run until cancelled."""
        async with self._tasks:
            await run_reconciler(self, self._wakeup, self._clock)

    def longest_wait(self) -> float | None:
        """Seconds until the next work item is due, while a worker is free; the end of a write is a change."""
        at = self._core.next_deadline() if len(self._core.under_way) < WORKERS else None
        return seconds_until(at, self._clock.now())

    async def reconcile(self) -> bool:
        """Check what events touched, and start the work items that are due. True if there is more to check."""
        core = self._core
        self._wake_if(core.wake(SOURCES))
        checked = core.check_touched(now=self._clock.now())
        while len(core.under_way) < WORKERS and (item := core.next_item(now=self._clock.now())) is not None:
            self._tasks.start(self._perform(item), f"{item.kind} {item.key}")
        if checked < CHECKED_AT_A_TIME:
            return False
        await let_others_run()
        return True

    def _wake_if(self, stirred: bool) -> None:
        if stirred:
            self._wakeup.set()

    async def _perform(self, item: ClaimWorkItem) -> None:
        try:
            done = await self._put_right(item)
        except (ApiError, LeadershipLost):
            done = False
        finally:
            self._core.under_way.discard(item)
        self._core.settle(item, done, now=self._clock.now())
        self._wakeup.set()

    async def _put_right(self, item: ClaimWorkItem) -> bool | None:
        """Perform a work item. False if it must be retried; None if nothing was to be done, or no event will follow."""
        match item.kind:
            case ClaimWorkKind.STATUS:
                return await self._write_status(item.key)
            case ClaimWorkKind.PROTECTION:
                return await self._protect(item.key)
            case ClaimWorkKind.COPY:
                return await self._make_copy(item.key)
            case ClaimWorkKind.QUOTA:
                return None if await self._write_quotas(item.key.namespace) else False

    async def _write_status(self, key: ObjectKey) -> bool | None:
        found = self._core.status_to_write(key)
        if found is None:
            return None
        claim, desired = found
        outcome = await self._claims.record(desired, known_claim(claim))
        self._core.status_written(key)
        self._on_outcome(outcome)
        return not (isinstance(outcome, StatusNotWritten) and outcome.setback is StatusWriteFailure.API_FAILED)

    async def _protect(self, key: ObjectKey) -> bool | None:
        found = self._core.protection_to_write(key, now=self._clock.now())
        if found is None:
            return None
        claim, missing = found
        try:
            return await self.protection.put(claim, protected=missing)
        except Forbidden as error:
            if not self._reported_unprotected:
                self._reported_unprotected = True
                _log.error("claims in use cannot be protected against deletion", claim=str(key), error=error.message)
            raise

    async def _make_copy(self, pod: ObjectKey) -> bool | None:
        wanted = self._core.copy_to_make(pod)
        if wanted is None:
            return None
        outcome = await self._copies.perform(wanted)
        self._on_outcome(outcome)
        return not isinstance(outcome, ClaimNotCreated)

    async def _write_quotas(self, namespace: str) -> bool:
        """Write the status of the namespace's quotas. False if the API failed and it has to be tried again."""
        right = True
        for desired in self._core.quotas_to_write(namespace):
            outcome = await self._quotas.record(desired)
            self._on_outcome(outcome)
            if isinstance(outcome, StatusNotWritten):
                right = right and outcome.setback is not StatusWriteFailure.API_FAILED
            else:
                self._core.quota_written(desired)
        self._core.quotas_ended(namespace, now=self._clock.now())
        return right
