"""Claim controller: keeps the status of every claim and quota true, and makes the claims of pods that name a template.

The wanted status follows from the objects and from the scheduler's last feedback; the written status is read from the
object. So nothing has to survive a restart, and nothing is written twice. Of several changes to one claim only the
latest is written.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import structlog

from ullage.act.claim_protection import ClaimProtection
from ullage.act.claims import ClaimCreator, ClaimStatusWriter, QuotaStatusWriter
from ullage.clock import Clock
from ullage.decide.claims.scheduler_feedback import SchedulerFeedback
from ullage.decide.claims.status import SHORT_WAIT
from ullage.decide.claims.status_debounce import StatusDebounce
from ullage.decide.claims.view import ClaimView
from ullage.decide.claims.work_items import (
    ClaimWorkItem,
    ClaimWorkKind,
    about_claim,
    about_claims_of,
    about_pod,
    about_quotas,
    asks_differently,
    fact_of,
    is_new_ask,
    moves_quotas,
    stands_differently,
)
from ullage.decide.placement.quota import QuotaTable
from ullage.errors import ApiError, Forbidden, LeadershipLost
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.kube.write.gpu import known_claim
from ullage.model.allocation import Allocation
from ullage.model.claim import Claim
from ullage.model.claim_status import QuotaStatus
from ullage.model.fact_event import Deleted, FactEvent, ObjectKey, Updated
from ullage.model.outcomes import ClaimNotCreated, CopyOutcome, RecordOutcome, StatusNotWritten, StatusWriteFailure
from ullage.model.pod import Pod
from ullage.model.quota import Quota
from ullage.model.refusal import SchedulingFailure
from ullage.model.units import Instant, Seconds
from ullage.model.verdict import Reason
from ullage.runtime import LoopTasks, Pacing, Wakeup, let_others_run, run_reconciler, seconds_until
from ullage.state.deadlines import DeadlineQueue
from ullage.state.snapshot import ClusterSnapshot

SOURCES = frozenset({PODS.id, GPU_CLAIMS.id})
"""Sources that must be synced before any claim is judged."""

CHECKED_AT_A_TIME = 256
"""Work items per turn; then other tasks of the event loop run."""

WORKERS = 8
"""Work items performed at the same time."""

RELEASE_SECONDS = Seconds(5.0)
"""Seconds a claim must be unused before its finalizer is removed: the watch may be behind, or a bind under way."""
ECHO_SECONDS = Seconds(5.0)
"""Seconds to wait for the watch to deliver a write of ours before judging the object again."""
_FIRST_RETRY, _LONGEST_RETRY = 0.5, 30.0

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
        self._state = snapshot.state
        self._said = SchedulerFeedback()
        self._view = ClaimView(snapshot, self._said, frozenset(names), quotas or QuotaTable(snapshot))
        self._claims, self._copies = ClaimStatusWriter(api, clock), ClaimCreator(api)
        self._quotas = QuotaStatusWriter(api, clock)
        self._reported_quotas: dict[ObjectKey, QuotaStatus] = {}
        self._deadlines: DeadlineQueue[ClaimWorkItem] = DeadlineQueue()
        self._touched: dict[ClaimWorkItem, None] = {}
        self._under_way: set[ClaimWorkItem] = set()
        self._debounce = StatusDebounce()
        self.protection = ClaimProtection(api)
        """Serves the binds, too."""
        self._reported_unprotected = False
        self._unused: dict[ObjectKey, float] = {}
        """Instant at which to release each unused claim."""
        self._not_before: dict[ClaimWorkItem, float] = {}
        self._failures: dict[ClaimWorkItem, int] = {}
        self._awake = False
        self._tasks = LoopTasks()
        self._wakeup = Wakeup()
        self._on_outcome = on_outcome

    def observe(self, event: FactEvent[Any]) -> None:
        """Take in an event of an informer. Events of other sources are ignored."""
        fact = fact_of(event)
        if isinstance(fact, Pod):
            self._observe_pod(event, fact)
        elif isinstance(fact, Claim):
            self._observe_claim(event, fact)
        elif isinstance(fact, Quota):
            self._reported_quotas.pop(fact.key, None)
            self._touch([about_quotas(fact.key.namespace)])
        elif fact is None:
            self._wakeup.set()
        elif self._state.quotas and moves_quotas(event):
            self._touch(map(about_quotas, self._view.limited()))

    def reserved(self, pod: ObjectKey, allocation: Allocation | None) -> None:
        """Leases are held for a bind of this pod that is under way, or no longer are."""
        known = self._state.pods.get(pod)
        if known is not None and not known.node:
            self._said.reserved(known, allocation)
            self._touch(about_claims_of(known))

    def refused(self, pod: ObjectKey, uid: str, why: SchedulingFailure) -> None:
        """The pod gets no place now. Forgotten when it is bound, asks for something else, or is gone."""
        known = self._state.pods.get(pod)
        if known is None or known.uid != uid or known.node:
            return
        over_quota = self._said.is_over_quota(pod)
        if known.claim or known.claim_template or over_quota or why.word == Reason.QUOTA_EXCEEDED:
            self._said.refused(known, why, now=self._clock.now())
            self._touch(about_claims_of(known))
        if over_quota != (why.word == Reason.QUOTA_EXCEEDED):
            self._touch([about_quotas(pod.namespace)])

    def refusal_of(self, pod: Pod) -> SchedulingFailure | None:
        """Return this pod's last scheduling failure, while it is current."""
        return self._said.refusal_of(pod)

    async def run(self) -> None:
        """Run until cancelled."""
        async with self._tasks:
            await run_reconciler(self, self._wakeup, self._clock)

    def longest_wait(self) -> float | None:
        """Seconds until the next work item is due, while a worker is free; the end of a write is a change."""
        at = self._deadlines.next_at() if len(self._under_way) < WORKERS else None
        return seconds_until(at, self._clock.now())

    async def reconcile(self) -> bool:
        """Judge what events touched, and start the work items that are due. True if there is more to judge."""
        checked = self._check_due() if self._is_awake() else 0
        while len(self._under_way) < WORKERS and (item := self._next_due()) is not None:
            self._under_way.add(item)
            self._tasks.start(self._perform(item), f"{item.kind} {item.key}")
        if checked < CHECKED_AT_A_TIME:
            return False
        await let_others_run()
        return True

    def _is_awake(self) -> bool:
        if not self._awake and self._state.synced >= SOURCES:
            self._awake = True
            self._touch(self._view.everything())
        return self._awake

    def _next_due(self) -> ClaimWorkItem | None:
        return self._deadlines.take_due(self._clock.now())

    def _touch(self, items: Iterable[ClaimWorkItem]) -> None:
        for item in items:
            self._touched[item] = None
        self._wakeup.set()

    def _observe_pod(self, event: FactEvent[Pod], pod: Pod) -> None:
        if isinstance(event, Updated):
            asks, stands = asks_differently(event.old, pod), stands_differently(event.old, pod)
            if not asks and not stands:
                return
            if asks:
                self._touch(about_pod(event.old))
            if asks or pod.node or pod.phase.over:
                self._forget(pod.key)
        else:
            self._forget(pod.key)
        self._touch(about_pod(pod))
        if self._state.quotas and self._view.is_limited(pod.key.namespace):
            self._touch([about_quotas(pod.key.namespace)])

    def _forget(self, pod: ObjectKey) -> None:
        if self._said.is_over_quota(pod):
            self._touch([about_quotas(pod.namespace)])
        self._said.forget(pod)

    def _observe_claim(self, event: FactEvent[Claim], claim: Claim) -> None:
        self.protection.observe(claim.key, None if isinstance(event, Deleted) else claim)
        for item in about_claim(claim.key):
            self._not_before.pop(item, None)
            self._touch([item])
        if claim.pod:
            copying = ClaimWorkItem(ClaimWorkKind.COPY, ObjectKey(claim.key.namespace, claim.pod))
            self._not_before.pop(copying, None)
            self._touch([copying])
        if is_new_ask(event):
            for pod in self._view.pods_asking_through(claim.key):
                self._said.absolve(pod.key)
                self._touch(about_pod(pod))

    def _check_due(self) -> int:
        """Queue the work items that events touched, or remove them. Returns the number of items judged."""
        now = self._clock.now()
        items = [one for one in self._touched if one not in self._under_way][:CHECKED_AT_A_TIME]
        for item in items:
            del self._touched[item]
            at = self._due(item, now)
            if at is None:
                self._deadlines.drop(item)
                self._not_before.pop(item, None)
                self._failures.pop(item, None)
            else:
                self._deadlines.put(item, Instant(max(at, self._not_before.get(item, now))))
        return len(items)

    def _due(self, item: ClaimWorkItem, now: float) -> float | None:
        """Return the instant at which this work item is due; None if there is nothing to do."""
        match item.kind:
            case ClaimWorkKind.STATUS:
                return self._status_due(item.key, now)
            case ClaimWorkKind.PROTECTION:
                return self._protection_due(item.key, now)
            case ClaimWorkKind.COPY:
                return None if self._view.copy_wanted(item.key) is None else now
            case ClaimWorkKind.QUOTA:
                # Quotas change in bursts: the first change opens a short window in which the others are collected.
                planned = self._deadlines.due(item)
                return now + SHORT_WAIT if planned is None else min(planned, now + SHORT_WAIT)

    def _status_due(self, key: ObjectKey, now: float) -> float | None:
        claim = self._state.claims.get(key)
        desired = None if claim is None else self._view.to_be_said(claim)
        if claim is None or desired is None:
            self._debounce.end(key)
            return None
        return self._debounce.due(claim, desired, Instant(now))

    def _protection_due(self, key: ObjectKey, now: float) -> float | None:
        claim = self._state.claims.get(key)
        missing = None if claim is None else self._view.protection_missing(claim)
        if missing is None:
            self._unused.pop(key, None)
            return None
        return now if missing else self._unused.setdefault(key, now + RELEASE_SECONDS)

    async def _perform(self, item: ClaimWorkItem) -> None:
        try:
            done = await self._put_right(item)
        except (ApiError, LeadershipLost):
            done = False
        finally:
            self._under_way.discard(item)
        if done is False:
            failures = self._failures[item] = self._failures.get(item, 0) + 1
            self._rest(item, min(_FIRST_RETRY * 2.0 ** (failures - 1), _LONGEST_RETRY))
        else:
            self._failures.pop(item, None)
            self._not_before.pop(item, None)
            if done:
                self._rest(item, ECHO_SECONDS)
        self._wakeup.set()

    def _rest(self, item: ClaimWorkItem, seconds: float) -> None:
        """Hold the work item back for so long, then judge it again unless an event came before."""
        self._not_before[item] = again = self._clock.now() + seconds
        self._deadlines.put(item, Instant(again))

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
        claim = self._state.claims.get(key)
        desired = None if claim is None else self._view.to_be_said(claim)
        if claim is None or desired is None:
            return None
        outcome = await self._claims.record(desired, known_claim(claim))
        self._debounce.end(key)
        self._on_outcome(outcome)
        return not (isinstance(outcome, StatusNotWritten) and outcome.setback is StatusWriteFailure.API_FAILED)

    async def _protect(self, key: ObjectKey) -> bool | None:
        claim = self._state.claims.get(key)
        missing = None if claim is None else self._view.protection_missing(claim)
        if claim is None or missing is None or (not missing and self._clock.now() < self._unused.get(key, 0.0)):
            return None
        try:
            return await self.protection.put(claim, protected=missing)
        except Forbidden as error:
            if not self._reported_unprotected:
                self._reported_unprotected = True
                _log.error("claims in use cannot be protected against deletion", claim=str(key), error=error.message)
            raise

    async def _make_copy(self, pod: ObjectKey) -> bool | None:
        wanted = self._view.copy_wanted(pod)
        if wanted is None:
            return None
        outcome = await self._copies.perform(wanted)
        self._on_outcome(outcome)
        return not isinstance(outcome, ClaimNotCreated)

    async def _write_quotas(self, namespace: str) -> bool:
        """Write the status of the namespace's quotas. False if the API failed and it has to be tried again."""
        right = True
        for desired in self._view.quota_statuses(namespace):
            if self._reported_quotas.get(desired.quota) == desired:
                continue
            outcome = await self._quotas.record(desired)
            self._on_outcome(outcome)
            if isinstance(outcome, StatusNotWritten):
                right = right and outcome.setback is not StatusWriteFailure.API_FAILED
            else:
                self._reported_quotas[desired.quota] = desired
        if self._view.has_intentions(namespace):
            # A bind under way counts. Should it fail, no event would follow.
            self._deadlines.put(about_quotas(namespace), Instant(self._clock.now() + ECHO_SECONDS))
        return right
