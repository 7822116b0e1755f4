"""Failures recorded on waiting pods: their validity, and the time of the next attempt."""

import hashlib
from collections.abc import Sequence

import msgspec

from ullage.decide.karpenter.batching import need_of
from ullage.decide.karpenter.facts import KarpenterFacts
from ullage.decide.karpenter.node_pool_mapping import Chosen, choose
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.model.intents import RecordFailure
from ullage.model.karpenter import CapacityRequest
from ullage.model.karpenter_failure import FailureKind, RecordedFailure, RequestFailure
from ullage.model.units import Instant, after

_decode = msgspec.json.Decoder(RecordedFailure).decode


def read_failure(text: str) -> RecordedFailure | None:
    """Failure in a waiting pod's annotation. Unreadable text is no failure: any user may annotate."""
    try:
        return _decode(text) if text else None
    except msgspec.DecodeError:
        return None


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

    def record(
        self,
        request: CapacityRequest,
        failure: RequestFailure,
        attempts: int,
        *,
        now: Instant,
        exhausted: Sequence[str] = (),
    ) -> RecordFailure | None:
        """Intent that records the failure on the waiting pod; None if it is recorded already."""
        known = self.recorded(request)
        said = None if known is None else (known.reason, known.message, known.attempts)
        if said == (failure.reason, failure.message, attempts):
            return None
        retry_at, left_out = self._again(request, failure, attempts, exhausted, now)
        written = RecordedFailure(
            reason=failure.reason,
            message=failure.message,
            attempts=attempts,
            retry_at=Instant(retry_at),
            fingerprint=self.fingerprint(request),
            at=now,
            exhausted=left_out,
        )
        return RecordFailure(pod=request.pod, failure=written, why=f"{failure.reason.value}: {failure.message}")

    def _fits_limits(self, request: CapacityRequest) -> bool:
        """True if the limits allow the request now.

        Within one batch Karpenter counts every NodeClaim as its largest candidate: the next batch may have room.
        """
        return isinstance(choose(request, self._policy.mappings, self._facts.node_pools), Chosen)

    def _again(
        self, request: CapacityRequest, failure: RequestFailure, attempts: int, exhausted: Sequence[str], now: Instant
    ) -> tuple[Instant, tuple[str, ...]]:
        """Return the instant of the next attempt (0: only after a change), and the mappings that it leaves out."""
        if failure.kind in (FailureKind.PERMANENT, FailureKind.UNAVAILABLE):
            return Instant(0.0), ()
        if failure.kind is FailureKind.LIMITS and not self._fits_limits(request):
            return after(now, self._policy.longest_backoff), ()
        if failure.kind is FailureKind.CAPACITY and exhausted:
            others = choose(request, self._policy.mappings, self._facts.node_pools, passed_over=exhausted)
            if isinstance(others, Chosen):
                return now, tuple(sorted(exhausted))
        return after(now, self._policy.backoff(attempts)), ()
