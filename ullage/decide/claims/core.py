"""ClaimCore: which writes for claims and quotas are due, and what they say. Synchronous; `now` is an argument.

The wanted status follows from the objects and from the scheduler's last feedback; the written status is read from the
object. So nothing has to survive a restart, and nothing is written twice. Of several changes to one claim only the
latest is written.
"""

from collections.abc import Iterable, Iterator
from typing import Any

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
from ullage.model.allocation import Allocation
from ullage.model.claim import Claim
from ullage.model.claim_status import ClaimStatus, QuotaStatus
from ullage.model.fact_event import FactEvent, ObjectKey, Updated
from ullage.model.intents import CreateClaimFromTemplate
from ullage.model.pod import Pod
from ullage.model.quota import Quota
from ullage.model.refusal import SchedulingFailure
from ullage.model.units import Instant, Seconds, after
from ullage.model.verdict import Reason
from ullage.state.deadlines import DeadlineQueue
from ullage.state.snapshot import ClusterSnapshot

CHECKED_AT_A_TIME = 256
"""Work items checked in one go; then other tasks of the event loop run."""

RELEASE_SECONDS = Seconds(5.0)
"""Seconds a claim must be unused before its finalizer is removed: the watch may be behind, or a bind under way."""
ECHO_SECONDS = Seconds(5.0)
"""Seconds to wait for the watch to deliver a write of ours before checking the object again."""
_FIRST_RETRY, _LONGEST_RETRY = 0.5, 30.0


class ClaimCore:
    """Work items of claims and quotas over the scheduler's snapshot. Methods that return True want a run soon."""

    def __init__(self, snapshot: ClusterSnapshot, names: frozenset[str], quotas: QuotaTable | None = None) -> None:
        self._state = snapshot.state
        self._said = SchedulerFeedback()
        self._view = ClaimView(snapshot, self._said, names, quotas or QuotaTable(snapshot))
        self._reported_quotas: dict[ObjectKey, QuotaStatus] = {}
        self._deadlines: DeadlineQueue[ClaimWorkItem] = DeadlineQueue()
        self._touched: dict[ClaimWorkItem, None] = {}
        self._stirred = False
        self.under_way: set[ClaimWorkItem] = set()
        """Work items that were taken and are not settled yet."""
        self._debounce = StatusDebounce()
        self._unused: dict[ObjectKey, Instant] = {}
        """Instant at which to release each unused claim."""
        self._not_before: dict[ClaimWorkItem, Instant] = {}
        self._failures: dict[ClaimWorkItem, int] = {}
        self._awake = False

    def observe(self, event: FactEvent[Any]) -> bool:
        """Take in an event of an informer, after the snapshot has. Events of other sources are ignored."""
        self._stirred = False
        fact = fact_of(event)
        if isinstance(fact, Pod):
            self._observe_pod(event, fact)
        elif isinstance(fact, Claim):
            self._observe_claim(event, fact)
        elif isinstance(fact, Quota):
            self._reported_quotas.pop(fact.key, None)
            self._touch([about_quotas(fact.key.namespace)])
        elif fact is None:
            return True
        elif self._state.quotas and moves_quotas(event):
            self._touch(map(about_quotas, self._view.limited()))
        return self._stirred

    def reserved(self, pod: ObjectKey, allocation: Allocation | None) -> bool:
        """Leases are held for a bind of this pod that is under way, or no longer are."""
        self._stirred = False
        known = self._state.pods.get(pod)
        if known is not None and not known.node:
            self._said.reserved(known, allocation)
            self._touch(about_claims_of(known))
        return self._stirred

    def refused(self, pod: ObjectKey, uid: str, why: SchedulingFailure, *, now: Instant) -> bool:
        """The pod gets no place now. Forgotten when it is bound, asks for something else, or is gone."""
        self._stirred = False
        known = self._state.pods.get(pod)
        if known is None or known.uid != uid or known.node:
            return False
        over_quota = self._said.is_over_quota(pod)
        if known.claim or known.claim_template or over_quota or why.word == Reason.QUOTA_EXCEEDED:
            self._said.refused(known, why, now=now)
            self._touch(about_claims_of(known))
        if over_quota != (why.word == Reason.QUOTA_EXCEEDED):
            self._touch([about_quotas(pod.namespace)])
        return self._stirred

    def refusal_of(self, pod: Pod) -> SchedulingFailure | None:
        """Return this pod's last scheduling failure, while it is current."""
        return self._said.refusal_of(pod)

    def wake(self, sources: frozenset[str]) -> bool:
        """Begin with all objects, once these sources have synced. True if that is now."""
        if self._awake or not self._state.synced >= sources:
            return False
        self._awake = True
        self._touch(self._view.everything())
        return True

    def check_touched(self, *, now: Instant) -> int:
        """Queue the work items that events touched, or remove them. Returns the number of items checked."""
        if not self._awake:
            return 0
        items = [one for one in self._touched if one not in self.under_way][:CHECKED_AT_A_TIME]
        for item in items:
            del self._touched[item]
            at = self._due(item, now)
            if at is None:
                self._deadlines.drop(item)
                self._not_before.pop(item, None)
                self._failures.pop(item, None)
            else:
                self._deadlines.put(item, max(at, self._not_before.get(item, now)))
        return len(items)

    def next_item(self, *, now: Instant) -> ClaimWorkItem | None:
        """Take the next work item that is due; None if there is none. It is under way until it is settled."""
        item = self._deadlines.take_due(now)
        if item is not None:
            self.under_way.add(item)
        return item

    def next_deadline(self) -> Instant | None:
        """Instant at which the next work item is due."""
        return self._deadlines.next_at()

    def settle(self, item: ClaimWorkItem, done: bool | None, *, now: Instant) -> None:
        """Take in the end of a work item: False is tried again; None wrote nothing, or nothing an event will follow."""
        if done is False:
            failures = self._failures[item] = self._failures.get(item, 0) + 1
            self._rest(item, Seconds(min(_FIRST_RETRY * 2.0 ** (failures - 1), _LONGEST_RETRY)), now)
            return
        self._failures.pop(item, None)
        self._not_before.pop(item, None)
        if done:
            self._rest(item, ECHO_SECONDS, now)

    def status_to_write(self, key: ObjectKey) -> tuple[Claim, ClaimStatus] | None:
        """The claim and the status it should have; None if there is nothing to write."""
        claim = self._state.claims.get(key)
        desired = None if claim is None else self._view.to_be_said(claim)
        return None if claim is None or desired is None else (claim, desired)

    def status_written(self, key: ObjectKey) -> None:
        """The write of a claim's status has ended, well or not."""
        self._debounce.end(key)

    def protection_to_write(self, key: ObjectKey, *, now: Instant) -> tuple[Claim, bool] | None:
        """The claim, and whether it is to be protected; None if there is nothing to write, or not yet."""
        claim = self._state.claims.get(key)
        missing = None if claim is None else self._view.protection_missing(claim)
        if claim is None or missing is None or (not missing and now < self._unused.get(key, 0.0)):
            return None
        return claim, missing

    def copy_to_make(self, pod: ObjectKey) -> CreateClaimFromTemplate | None:
        """The claim that a pod with a template lacks."""
        return self._view.copy_wanted(pod)

    def quotas_to_write(self, namespace: str) -> Iterator[QuotaStatus]:
        """Statuses of the namespace's quotas that were not written yet, each looked at when it is asked for."""
        for desired in self._view.quota_statuses(namespace):
            if self._reported_quotas.get(desired.quota) != desired:
                yield desired

    def quota_written(self, status: QuotaStatus) -> None:
        """The quota has this status now."""
        self._reported_quotas[status.quota] = status

    def quotas_ended(self, namespace: str, *, now: Instant) -> None:
        """All quotas of the namespace were tried. A bind under way counts; should it fail, no event would follow."""
        if self._view.has_intentions(namespace):
            self._deadlines.put(about_quotas(namespace), after(now, ECHO_SECONDS))

    def _touch(self, items: Iterable[ClaimWorkItem]) -> None:
        for item in items:
            self._touched[item] = None
        self._stirred = True

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

    def _due(self, item: ClaimWorkItem, now: Instant) -> Instant | None:
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
                planned, soon = self._deadlines.due(item), after(now, SHORT_WAIT)
                return soon if planned is None else min(planned, soon)

    def _status_due(self, key: ObjectKey, now: Instant) -> Instant | None:
        found = self.status_to_write(key)
        if found is None:
            self._debounce.end(key)
            return None
        return self._debounce.due(*found, now)

    def _protection_due(self, key: ObjectKey, now: Instant) -> Instant | None:
        claim = self._state.claims.get(key)
        missing = None if claim is None else self._view.protection_missing(claim)
        if missing is None:
            self._unused.pop(key, None)
            return None
        return now if missing else self._unused.setdefault(key, after(now, RELEASE_SECONDS))

    def _rest(self, item: ClaimWorkItem, delay: Seconds, now: Instant) -> None:
        """Hold the work item back for so long, then check it again unless an event came before."""
        self._not_before[item] = again = after(now, delay)
        self._deadlines.put(item, again)
