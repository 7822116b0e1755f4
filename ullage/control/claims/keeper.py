"""Keeps the status of every claim and quota true, and makes the claims of pods that name a template.

What a status is to say follows from the objects and from what the scheduler said last; what it says follows from the
object itself. So nothing has to survive a restart, and nothing is written that is there already. Wakes on news and at
deadlines; of several things to say on one claim only the latest is written.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any

from ullage.act.claim_copies import ClaimCopier
from ullage.act.claim_status import ClaimRecorder
from ullage.act.quota_status import QuotaRecorder
from ullage.clock import Clock
from ullage.control.claims.agenda import Agenda
from ullage.control.claims.grace import Grace
from ullage.control.claims.hearsay import Hearsay
from ullage.control.claims.ledger import Ledger
from ullage.control.claims.news import (
    Errand,
    Kind,
    about_claims_of,
    about_pod,
    about_quotas,
    asks_differently,
    fact_of,
    is_new_ask,
    moves_quotas,
    stands_differently,
)
from ullage.decide.claim_status import A_MOMENT
from ullage.decide.quota import QuotaTable
from ullage.errors import ApiError, LeadershipLost
from ullage.kube.api import KubeApi
from ullage.kube.gpu_write import known_claim
from ullage.kube.resources import GPU_CLAIMS, PODS
from ullage.model.allocation import Allocation
from ullage.model.claim import Claim
from ullage.model.copying import CopyOutcome, NotCopied
from ullage.model.event import Changed, Event, ObjectKey
from ullage.model.pod import Pod
from ullage.model.quota import Quota
from ullage.model.refusal import Refusal
from ullage.model.standing import NotRecorded, QuotaStanding, RecordOutcome, Unrecorded
from ullage.model.verdict import Reason
from ullage.state.placements import Placements

SOURCES = frozenset({PODS.id, GPU_CLAIMS.id})
"""What has to be heard of before anything is judged."""

LOOKED_AT_A_TIME = 256
"""Then others get their turn."""

ECHO_SECONDS = 5.0
"""How long to wait for the watch to say what was just written before looking again."""
_FIRST_RETRY, _LONGEST_RETRY = 0.5, 30.0


class ClaimKeeper:
    """Feed `hear` with everything the scheduler hears, after `placements` have taken it in; and `run` it."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        placements: Placements,
        *,
        names: Collection[str],
        quotas: QuotaTable | None = None,
        writes_at_once: int = 8,
    ) -> None:
        self._clock = clock
        self._state = placements.state
        self._said = Hearsay()
        self._ledger = Ledger(placements, self._said, frozenset(names), quotas or QuotaTable(placements))
        self._claims, self._copies = ClaimRecorder(api, clock), ClaimCopier(api)
        self._quotas = QuotaRecorder(api, clock)
        self._told: dict[ObjectKey, QuotaStanding] = {}
        self._agenda: Agenda[Errand] = Agenda()
        self._touched: dict[Errand, None] = {}
        self._under_way: set[Errand] = set()
        self._grace = Grace()
        self._not_before: dict[Errand, float] = {}
        self._failures: dict[Errand, int] = {}
        self._hands = writes_at_once
        self._awake = False
        self._news = asyncio.Event()
        self.on_outcome: Callable[[RecordOutcome | CopyOutcome], None] = lambda _: None

    def hear(self, event: Event[Any]) -> None:
        """What an informer delivers. Events of other sources do no harm."""
        fact = fact_of(event)
        if isinstance(fact, Pod):
            self._pod_heard(event, fact)
        elif isinstance(fact, Claim):
            self._claim_heard(event, fact)
        elif isinstance(fact, Quota):
            self._told.pop(fact.key, None)
            self._touch([about_quotas(fact.key.namespace)])
        elif fact is None:
            self._news.set()
        elif self._state.quotas and moves_quotas(event):
            self._touch(map(about_quotas, self._ledger.limited()))

    def reserved(self, pod: ObjectKey, allocation: Allocation | None) -> None:
        """Leases are held for a bind of this pod that is under way, or no longer are."""
        known = self._state.pods.get(pod)
        if known is not None and not known.node:
            self._said.reserved(known, allocation)
            self._touch(about_claims_of(known))

    def refused(self, pod: ObjectKey, uid: str, why: Refusal) -> None:
        """The pod gets no place now. Forgotten when it is bound, asks for something else, or is gone."""
        known = self._state.pods.get(pod)
        if known is None or known.uid != uid or known.node:
            return
        over_quota = self._said.is_over_quota(pod)
        if known.claim or known.claim_template or over_quota or why.word == Reason.QUOTA_EXCEEDED:
            self._said.refused(known, why)
            self._touch(about_claims_of(known))
        if over_quota != (why.word == Reason.QUOTA_EXCEEDED):
            self._touch([about_quotas(pod.namespace)])

    def refusal_of(self, pod: Pod) -> Refusal | None:
        """What this very pod was refused for last, while that counts."""
        return self._said.refusal_of(pod)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._news.clear()
                looked = self._look() if self._is_awake() else 0
                while len(self._under_way) < self._hands and (errand := self._next_due()) is not None:
                    self._under_way.add(errand)
                    group.create_task(self._perform(errand), name=f"{errand.kind} {errand.key}")
                if looked < LOOKED_AT_A_TIME:
                    await self._wait()
                else:
                    await asyncio.sleep(0)

    def _is_awake(self) -> bool:
        if not self._awake and self._state.synced >= SOURCES:
            self._awake = True
            self._touch(self._ledger.everything())
        return self._awake

    def _next_due(self) -> Errand | None:
        return self._agenda.take_due(self._clock.now())

    async def _wait(self) -> None:
        """Until there is news, a write has ended, or something is due and there are hands for it."""
        at = self._agenda.next_at() if len(self._under_way) < self._hands else None
        try:
            async with asyncio.timeout(None if at is None else max(0.0, at - self._clock.now())):
                await self._news.wait()
        except TimeoutError:
            return

    def _touch(self, errands: Iterable[Errand]) -> None:
        for errand in errands:
            self._touched[errand] = None
        self._news.set()

    def _pod_heard(self, event: Event[Pod], pod: Pod) -> None:
        if isinstance(event, Changed):
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
        if self._state.quotas and self._ledger.is_limited(pod.key.namespace):
            self._touch([about_quotas(pod.key.namespace)])

    def _forget(self, pod: ObjectKey) -> None:
        if self._said.is_over_quota(pod):
            self._touch([about_quotas(pod.namespace)])
        self._said.forget(pod)

    def _claim_heard(self, event: Event[Claim], claim: Claim) -> None:
        errand = Errand(Kind.STATUS, claim.key)
        self._not_before.pop(errand, None)
        self._touch([errand])
        if claim.pod:
            copying = Errand(Kind.COPY, ObjectKey(claim.key.namespace, claim.pod))
            self._not_before.pop(copying, None)
            self._touch([copying])
        if is_new_ask(event):
            for pod in self._ledger.pods_asking_through(claim.key):
                self._said.absolve(pod.key)
                self._touch(about_pod(pod))

    def _look(self) -> int:
        """Put what was touched on the agenda, or take it off. Returns how much was looked at."""
        now = self._clock.now()
        errands = [one for one in self._touched if one not in self._under_way][:LOOKED_AT_A_TIME]
        for errand in errands:
            del self._touched[errand]
            at = self._due(errand, now)
            if at is None:
                self._agenda.drop(errand)
                self._not_before.pop(errand, None)
                self._failures.pop(errand, None)
            else:
                self._agenda.put(errand, max(at, self._not_before.get(errand, now)))
        return len(errands)

    def _due(self, errand: Errand, now: float) -> float | None:
        """When this is to be put right; None if it is right."""
        match errand.kind:
            case Kind.STATUS:
                return self._status_due(errand.key, now)
            case Kind.COPY:
                return None if self._ledger.copy_wanted(errand.key) is None else now
            case Kind.QUOTA:
                # Much moves at once: the first word opens a moment in which the others come, too.
                planned = self._agenda.due(errand)
                return now + A_MOMENT if planned is None else min(planned, now + A_MOMENT)

    def _status_due(self, key: ObjectKey, now: float) -> float | None:
        claim = self._state.claims.get(key)
        standing = None if claim is None else self._ledger.to_be_said(claim)
        if claim is None or standing is None:
            self._grace.end(key)
            return None
        return self._grace.due(claim, standing, now)

    async def _perform(self, errand: Errand) -> None:
        try:
            done = await self._put_right(errand)
        except (ApiError, LeadershipLost):
            done = False
        finally:
            self._under_way.discard(errand)
        if done is False:
            failures = self._failures[errand] = self._failures.get(errand, 0) + 1
            self._rest(errand, min(_FIRST_RETRY * 2.0 ** (failures - 1), _LONGEST_RETRY))
        else:
            self._failures.pop(errand, None)
            self._not_before.pop(errand, None)
            if done:
                self._rest(errand, ECHO_SECONDS)
        self._news.set()

    def _rest(self, errand: Errand, seconds: float) -> None:
        """Not before then, and then at the latest, unless something is heard of it."""
        self._not_before[errand] = again = self._clock.now() + seconds
        self._agenda.put(errand, again)

    async def _put_right(self, errand: Errand) -> bool | None:
        """Whether that was done; None if there was nothing to do, or nothing will be heard of it."""
        match errand.kind:
            case Kind.STATUS:
                return await self._write_status(errand.key)
            case Kind.COPY:
                return await self._make_copy(errand.key)
            case Kind.QUOTA:
                return None if await self._write_quotas(errand.key.namespace) else False

    async def _write_status(self, key: ObjectKey) -> bool | None:
        claim = self._state.claims.get(key)
        standing = None if claim is None else self._ledger.to_be_said(claim)
        if claim is None or standing is None:
            return None
        outcome = await self._claims.record(standing, known_claim(claim))
        self._grace.end(key)
        self.on_outcome(outcome)
        return not (isinstance(outcome, Unrecorded) and outcome.setback is NotRecorded.API_FAILED)

    async def _make_copy(self, pod: ObjectKey) -> bool | None:
        wanted = self._ledger.copy_wanted(pod)
        if wanted is None:
            return None
        outcome = await self._copies.perform(wanted)
        self.on_outcome(outcome)
        return not isinstance(outcome, NotCopied)

    async def _write_quotas(self, namespace: str) -> bool:
        """Whether they are right now."""
        right = True
        for standing in self._ledger.quota_standings(namespace):
            if self._told.get(standing.quota) == standing:
                continue
            outcome = await self._quotas.record(standing)
            self.on_outcome(outcome)
            if isinstance(outcome, Unrecorded):
                right = right and outcome.setback is not NotRecorded.API_FAILED
            else:
                self._told[standing.quota] = standing
        if self._ledger.has_intentions(namespace):
            # A bind under way counts; should it come to nothing, nobody would tell.
            self._agenda.put(about_quotas(namespace), self._clock.now() + ECHO_SECONDS)
        return right
