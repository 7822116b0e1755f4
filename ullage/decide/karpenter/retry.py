"""Failures recorded on waiting pods: their validity, and the time of the next attempt."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ullage.decide.karpenter.batching import need_of
from ullage.decide.karpenter.facts import KarpenterFacts
from ullage.decide.karpenter.node_pool_mapping import Chosen, choose
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.model.intents import RecordFailure
from ullage.model.karpenter import CapacityRequest
from ullage.model.karpenter_failure import (
    FailureKind,
    FailureReason,
    RecordedFailure,
    RefusedMapping,
    RequestFailure,
)
from ullage.model.units import Instant, after

_decode = msgspec.json.Decoder(RecordedFailure).decode


def read_failure(text: str) -> RecordedFailure | None:
    """Failure in a waiting pod's annotation. Unreadable text is no failure: any user may annotate."""
    try:
        return _decode(text) if text else None
    except msgspec.DecodeError:
        return None


@dataclass(frozen=True, slots=True)
class Tried:
    """Mapping that a failed smart pod asked, and those that had no capacity before it in the same round."""

    mapping: str = ""
    exhausted: tuple[str, ...] = ()


UNTRIED = Tried()
"""The failure is about no mapping that was asked."""


class SmartPodRetries:
    """Validates recorded failures against the current mappings and NodePools."""

    def __init__(self, facts: KarpenterFacts, policy: KarpenterPolicy) -> None:
        self._facts = facts
        self._policy = policy

    def fingerprint(self, request: CapacityRequest) -> str:
        """Fingerprint of all that decides a request: its need, the mappings, spec and readiness of their NodePools."""
        named = {mapping.node_pool for mapping in self._policy.mappings}
        pools = [
            (one.name, one.uid, one.generation, one.deleting, one.ready.status.value)
            for name, one in sorted(self._facts.node_pools.items())
            if name in named
        ]
        parts = (need_of((request,)), self._policy.mappings, pools)
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]

    def recorded(self, request: CapacityRequest) -> RecordedFailure | None:
        """Failure that is still valid: recorded for the same need, mappings and NodePools."""
        failure = request.failure
        return failure if failure is not None and failure.fingerprint == self.fingerprint(request) else None

    def choose(
        self, request: CapacityRequest, exhausted: Sequence[str] = (), in_flight: Mapping[str, int] | None = None
    ) -> Chosen | RequestFailure:
        """Choose the mapping to ask next: none that refused the request, and none that is exhausted."""
        known = self.recorded(request)
        return self._choose(request, () if known is None else known.refused, exhausted, in_flight)

    def _choose(
        self,
        request: CapacityRequest,
        refused: Sequence[RefusedMapping],
        exhausted: Sequence[str] = (),
        in_flight: Mapping[str, int] | None = None,
    ) -> Chosen | RequestFailure:
        names = {one.mapping for one in refused}
        left = [one for one in self._policy.mappings if one.name not in names]
        if refused and not left:
            return RequestFailure(refused[-1].reason, refused[-1].message)
        return choose(request, left, self._facts.node_pools, passed_over=exhausted, in_flight=in_flight)

    def record(
        self, request: CapacityRequest, failure: RequestFailure, attempts: int, *, now: Instant, tried: Tried = UNTRIED
    ) -> RecordFailure | None:
        """Intent that records the failure on the waiting pod; None if it is recorded already."""
        known, refused = self.recorded(request), self._refused(request, failure, tried)
        retry_at, left_out = self._again(request, failure, attempts, refused, tried, now)
        message = failure.message if retry_at else self._all_words(request, failure, refused)
        said = None if known is None else (known.reason, known.message, known.attempts, known.refused)
        if said == (failure.reason, message, attempts, refused):
            return None
        written = RecordedFailure(
            reason=failure.reason,
            message=message,
            attempts=attempts,
            retry_at=Instant(retry_at),
            fingerprint=self.fingerprint(request),
            at=now,
            exhausted=left_out,
            refused=refused,
        )
        return RecordFailure(pod=request.pod, failure=written, why=f"{failure.reason.value}: {message}")

    def goes_on(self, request: CapacityRequest, failure: RequestFailure, tried: Tried, *, now: Instant) -> bool:
        """True if the request is asked for again by itself, at a mapping that has not refused it."""
        return self._again(request, failure, 1, self._refused(request, failure, tried), tried, now)[0] > 0

    def _refused(self, request: CapacityRequest, failure: RequestFailure, tried: Tried) -> tuple[RefusedMapping, ...]:
        """Mappings that refused the request for good, with this failure. One of another gang member refuses nothing."""
        known = self.recorded(request)
        before = () if known is None else known.refused
        if not tried.mapping or failure.kind is not FailureKind.PERMANENT or failure.cause is not None:
            return before
        others = (one for one in before if one.mapping != tried.mapping)
        return (*others, RefusedMapping(tried.mapping, failure.reason, failure.message))

    def _all_words(self, request: CapacityRequest, failure: RequestFailure, refused: Sequence[RefusedMapping]) -> str:
        """Sentence for a request that is over: the word of each mapping that was asked, or that cannot be asked now."""
        words = [f"{one.mapping}: {one.message}" for one in refused]
        if failure.message not in (one.message for one in refused):
            words.insert(0, failure.message)
        left = self._choose(request, refused)
        if refused and isinstance(left, RequestFailure) and left.kind is FailureKind.UNAVAILABLE:
            words.append(left.message)
        return "; ".join(words) if len(words) > 1 else failure.message

    def _fits_limits(self, request: CapacityRequest, refused: Sequence[RefusedMapping]) -> bool:
        """True if the limits allow the request now.

        Within one batch Karpenter counts every NodeClaim as its largest candidate: the next batch may have room.
        """
        return isinstance(self._choose(request, refused), Chosen)

    def _again(
        self,
        request: CapacityRequest,
        failure: RequestFailure,
        attempts: int,
        refused: Sequence[RefusedMapping],
        tried: Tried,
        now: Instant,
    ) -> tuple[Instant, tuple[str, ...]]:
        """Return the instant of the next attempt (0: only after a change), and the mappings that it leaves out."""
        if failure.reason is FailureReason.REJECTED:
            return after(now, self._policy.backoff(attempts)), ()  # what the API server misses comes without a word
        if failure.kind in (FailureKind.PERMANENT, FailureKind.UNAVAILABLE):
            if not tried.mapping:
                return Instant(0.0), ()
            if failure.cause is not None:
                return (now if failure.goes_on else Instant(0.0)), ()
            return self._after_refusal(request, attempts, refused, tried.exhausted, now)
        if failure.kind is FailureKind.LIMITS and not self._fits_limits(request, refused):
            return after(now, self._policy.longest_backoff), ()
        is_without_room = failure.kind is FailureKind.LIMITS and attempts >= self._policy.max_retry_attempts
        if tried.mapping and (is_without_room or failure.kind is FailureKind.CAPACITY):
            exhausted = (*tried.exhausted, tried.mapping)
            if isinstance(self._choose(request, refused, exhausted), Chosen):
                return now, tuple(sorted(exhausted))
        return after(now, self._policy.backoff(attempts)), ()

    def _after_refusal(
        self,
        request: CapacityRequest,
        attempts: int,
        refused: Sequence[RefusedMapping],
        exhausted: Sequence[str],
        now: Instant,
    ) -> tuple[Instant, tuple[str, ...]]:
        """Return the instant of the next attempt after a mapping that cannot serve the request: another is asked.

        Mappings without capacity, or at their limits, are asked again later. Without any the request is over.
        """
        if isinstance(self._choose(request, refused, exhausted), Chosen):
            return now, tuple(sorted(exhausted))
        left = self._choose(request, refused)
        if isinstance(left, Chosen):
            return after(now, self._policy.backoff(attempts)), ()
        if left.kind is FailureKind.LIMITS:
            return after(now, self._policy.longest_backoff), ()
        return Instant(0.0), ()
