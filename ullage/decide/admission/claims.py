"""Admission of GpuClaims. Denied: impossible claims, and spec changes while a pod holds GPUs by the claim."""

from collections.abc import Sequence

from ullage.model.admission import AS_IT_IS, AdmissionDenied, DenialReason, Judgement
from ullage.model.claim import ClaimPhase
from ullage.model.fact_event import ObjectKey

_HOLDS = (ClaimPhase.RESERVED, ClaimPhase.BOUND)


def new_claim(key: ObjectKey, wrong: Sequence[str]) -> Judgement:
    """At CREATE. `wrong` is what the rules of the kind say of it, each with its field."""
    if not wrong:
        return AS_IT_IS
    return AdmissionDenied(DenialReason.CLAIM_IMPOSSIBLE, f"GpuClaim {key} can never be satisfied: {'; '.join(wrong)}")


def changed_claim(key: ObjectKey, wrong: Sequence[str], phase: str, holders: Sequence[ObjectKey]) -> Judgement:
    """At UPDATE of its spec. `phase` is the one it has; `holders` are the pods on nodes that name it."""
    if holders:
        # The pods are not named: the user may not be allowed to list the pods of this namespace.
        words = f"GpuClaim {key}: spec cannot change while a pod holds GPUs by it; delete the pod first"
        return AdmissionDenied(DenialReason.CLAIM_HELD, words)
    if phase in _HOLDS:
        words = f"GpuClaim {key}: spec cannot change while the claim is {phase}; delete its pod first"
        return AdmissionDenied(DenialReason.CLAIM_HELD, words)
    return new_claim(key, wrong)
