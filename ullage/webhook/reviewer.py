"""Answer admission reviews, bytes to bytes: find the question, and the function that judges it. No sockets here."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import structlog

from ullage.decide.admission import claims, guard, mutate
from ullage.decide.admission.mutate import ClaimLookup
from ullage.decide.admission.policy import AdmissionPolicy
from ullage.errors import ApiError, Unreadable
from ullage.kube.admission.reviews import answer, read_key, read_object, read_pod, read_review, read_uid, refusal_status
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.kube.crds.check import violations
from ullage.kube.objects.admission import (
    AdmissionRequest,
    ReviewedClaim,
    ReviewedObject,
    ReviewedPod,
)
from ullage.model.admission import AS_IT_IS, AdmissionAllowed, AdmissionDenied, AdmissionPod, DenialReason, Judgement
from ullage.model.fact_event import ObjectKey

T = TypeVar("T")

_log = structlog.get_logger("webhook")
_BUG = (500, "InternalError")


class ClaimSource(Protocol):
    """Claims, and the pods that hold GPUs by them. Both methods raise ApiError if the API server does not answer."""

    async def find(self, key: ObjectKey) -> ClaimLookup: ...

    async def holders(self, key: ObjectKey) -> Sequence[ObjectKey]: ...


@dataclass(frozen=True, slots=True)
class ReviewAnswer:
    """HTTP response, and its outcome in one word for metrics."""

    code: int
    body: bytes
    outcome: str


@dataclass(frozen=True, slots=True)
class _Verdict:
    judgement: Judgement
    pod: ReviewedPod | None = None
    """Pod that the changes apply to."""


_Question = tuple[str, str, str, str]
"""Group, resource, subresource, operation."""


class AdmissionReviewer:
    """Answers reviews. Every body gets an answer."""

    def __init__(self, policy: AdmissionPolicy, claims: ClaimSource) -> None:
        self._policy = policy
        self._claims = claims
        self._mutations: Mapping[_Question, Callable[[AdmissionRequest], Awaitable[_Verdict]]] = {
            ("", PODS.plural, "", "CREATE"): self._new_pod,
            ("", PODS.plural, "ephemeralcontainers", "UPDATE"): self._new_ephemeral,
        }
        self._validations: Mapping[_Question, Callable[[AdmissionRequest], Awaitable[_Verdict]]] = {
            ("", PODS.plural, "", "CREATE"): self._guard_new_pod,
            ("", PODS.plural, "", "UPDATE"): self._guard_changed_pod,
            ("", PODS.plural, "status", "UPDATE"): self._guard_changed_pod,
            ("", PODS.plural, "ephemeralcontainers", "UPDATE"): self._guard_changed_pod,
            ("", PODS.plural, "binding", "CREATE"): self._guard_binding,
            ("", "bindings", "", "CREATE"): self._guard_binding,
            (GPU_CLAIMS.group, GPU_CLAIMS.plural, "", "CREATE"): self._new_claim,
            (GPU_CLAIMS.group, GPU_CLAIMS.plural, "", "UPDATE"): self._changed_claim,
        }

    async def mutate(self, body: bytes) -> ReviewAnswer:
        """Answer a review sent to `/mutate`."""
        return await self._answer(body, self._mutations)

    async def validate(self, body: bytes) -> ReviewAnswer:
        """Answer a review sent to `/validate`."""
        return await self._answer(body, self._validations)

    async def _answer(
        self, body: bytes, questions: Mapping[_Question, Callable[[AdmissionRequest], Awaitable[_Verdict]]]
    ) -> ReviewAnswer:
        try:
            request = read_review(body).request
        except Unreadable as error:
            return _malformed(read_uid(body), error.message)
        kind = request.resource
        review = questions.get((kind.group, kind.resource, request.sub_resource, request.operation))
        try:
            verdict = _Verdict(AS_IT_IS) if review is None else await review(request)
            return ReviewAnswer(200, answer(request.uid, verdict.judgement, verdict.pod), _word(verdict.judgement))
        except Unreadable as error:
            return _malformed(request.uid, error.message)
        except ApiError as error:
            refused = AdmissionDenied(DenialReason.CLAIM_UNKNOWN, f"the API server did not say: {error}; try again")
            return ReviewAnswer(200, answer(request.uid, refused), refused.reason.value)
        except Exception as error:  # noqa: BLE001 - a bug must not leave the API server waiting, and is said loudly
            _log.exception("review failed", uid=request.uid, resource=kind.resource, name=request.name)
            return ReviewAnswer(500, refusal_status(*_BUG, f"{type(error).__name__} while judging"), "Bug")

    async def _new_pod(self, request: AdmissionRequest) -> _Verdict:
        raw, pod = _pod(request)
        found = await self._found(pod)
        return _Verdict(mutate.new_pod(pod, request.user_info.username, found, self._policy), raw)

    async def _new_ephemeral(self, request: AdmissionRequest) -> _Verdict:
        raw, pod = _pod(request)
        old = read_object(request.old_object, ReviewedPod, "oldObject")
        before = read_pod(old, request.namespace).containers
        return _Verdict(mutate.new_ephemeral(pod, before, await self._found(pod), self._policy), raw)

    async def _guard_new_pod(self, request: AdmissionRequest) -> _Verdict:
        _, pod = _pod(request)
        return _Verdict(guard.new_pod(pod, request.user_info.username, self._policy))

    async def _guard_changed_pod(self, request: AdmissionRequest) -> _Verdict:
        if request.sub_resource == "" and (tolerating := _begins_to_tolerate(request)) is not None:
            judgement = guard.tolerating_pod(tolerating, request.user_info.username, self._policy)
            if isinstance(judgement, AdmissionDenied):
                return _Verdict(judgement)
        new = read_object(request.object, ReviewedObject, "object").metadata.annotations or {}
        old = read_object(request.old_object, ReviewedObject, "oldObject").metadata.annotations or {}
        return _Verdict(guard.changed_pod(new, old, request.user_info.username, self._policy))

    async def _guard_binding(self, request: AdmissionRequest) -> _Verdict:
        binding = read_object(request.object, ReviewedObject, "object")
        notes = binding.metadata.annotations or {}
        return _Verdict(guard.binding(notes, request.user_info.username, self._policy))

    async def _new_claim(self, request: AdmissionRequest) -> _Verdict:
        key, claim = _claim(request)
        return _Verdict(claims.new_claim(key, _wrong(claim)))

    async def _changed_claim(self, request: AdmissionRequest) -> _Verdict:
        key, claim = _claim(request)
        old = read_object(request.old_object, ReviewedClaim, "oldObject")
        if claim.spec == old.spec:
            return _Verdict(AS_IT_IS)
        holders = await self._claims.holders(key)
        return _Verdict(claims.changed_claim(key, _wrong(claim), old.status.phase, holders))

    async def _found(self, pod: AdmissionPod) -> ClaimLookup:
        """Claim of a pod; no lookup for a pod that names none."""
        return await self._claims.find(ObjectKey(pod.key.namespace, pod.claim)) if pod.claim else ClaimLookup()


def _pod(request: AdmissionRequest) -> tuple[ReviewedPod, AdmissionPod]:
    raw = read_object(request.object, ReviewedPod, "object")
    return raw, read_pod(raw, request.namespace)


def _begins_to_tolerate(request: AdmissionRequest) -> AdmissionPod | None:
    """The pod, if this update makes it tolerate the taint of leased nodes."""
    old = read_pod(read_object(request.old_object, ReviewedPod, "oldObject"), request.namespace)
    _, new = _pod(request)
    return new if new.tolerates_leased and not old.tolerates_leased else None


def _claim(request: AdmissionRequest) -> tuple[ObjectKey, ReviewedClaim]:
    claim = read_object(request.object, ReviewedClaim, "object")
    return read_key(claim.metadata, request.namespace, request.name), claim


def _wrong(claim: ReviewedClaim) -> list[str]:
    return [str(one) for one in violations(claim.spec, "spec")]


def _malformed(uid: str, message: str) -> ReviewAnswer:
    """A refusal with the uid, so that the API server shows the reason; without one it would not even read it."""
    word = DenialReason.MALFORMED
    if not uid:
        return ReviewAnswer(400, refusal_status(400, "BadRequest", message), word.value)
    return ReviewAnswer(200, answer(uid, AdmissionDenied(word, message)), word.value)


def _word(judgement: Judgement) -> str:
    if isinstance(judgement, AdmissionAllowed):
        return "Patched" if judgement.changes else "AsItIs"
    return judgement.reason.value
