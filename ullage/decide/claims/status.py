"""Claim status, computed from the pod that uses the claim and not from the previous status.

The pod's bound allocation takes precedence over the scheduler's feedback. A claim whose pod is gone or finished holds
nothing. The delay of a status write is decided here, too: the more wrong the status, the shorter the delay.
"""

from ullage.model.allocation import Allocation
from ullage.model.claim import Claim, ClaimPhase
from ullage.model.claim_status import LONGEST_MESSAGE, ClaimReason, ClaimStatus
from ullage.model.pod import Pod
from ullage.model.refusal import SchedulingFailure
from ullage.model.units import Seconds
from ullage.model.verdict import Reason

SHORT_WAIT = Seconds(1.0)
"""Seconds: a status that a bind is likely to overtake is not written sooner."""
A_WHILE = Seconds(30.0)
"""Seconds: a change from one reason to wait to another, or of a count in its message, is written no sooner."""

_HOLDS = (ClaimPhase.RESERVED, ClaimPhase.BOUND)
_NOT_REFUSALS = frozenset({"", Reason.SCHEDULING_GATED, *ClaimReason})
_OUTDATED = (Reason.CLAIM_MISSING, Reason.CLAIM_IN_USE)
"""Reasons that cannot hold any more for the pod that has the claim."""


def claim_status(
    claim: Claim,
    pod: Pod | None,
    *,
    reserved: Allocation | None = None,
    refusal: SchedulingFailure | None = None,
    ours: bool = True,
    template: bool = False,
) -> ClaimStatus:
    """Status of the claim. `pod` is the pod that uses it; `reserved` the GPUs leased to the pod for a bind under way.

    A refusal counts only while the pod has no node and nothing is reserved for it. `ours`: this scheduler is to place
    the pod. `template`: pods get copies of the claim.
    """
    if pod is None:
        words = "a template: pods that name it have copies of their own" if template else "no pod uses it"
        return _desired(claim, ClaimPhase.PENDING, ClaimReason.UNUSED, words)
    name = pod.key.name
    if pod.phase.over:
        return _desired(claim, ClaimPhase.PENDING, ClaimReason.POD_FINISHED, f"pod {name} has finished")
    if pod.node:
        held = Allocation(pod.node, pod.gpu_ids)
        return _holding(claim, ClaimPhase.BOUND, ClaimReason.BOUND, held, f"pod {name} is on {pod.node}")
    if reserved is not None:
        words = f"held for pod {name} on {reserved.node}, which is not bound yet"
        return _holding(claim, ClaimPhase.RESERVED, ClaimReason.RESERVED, reserved, words)
    if pod.gated:
        return _desired(claim, ClaimPhase.PENDING, Reason.SCHEDULING_GATED, f"pod {name} has scheduling gates")
    if not ours:
        words = f"pod {name} is for scheduler {pod.scheduler} to place, which may not look at claims"
        return _desired(claim, ClaimPhase.PENDING, ClaimReason.OTHER_SCHEDULER, words)
    if refusal is not None and refusal.word not in _OUTDATED:
        phase = ClaimPhase.FAILED if refusal.permanent else ClaimPhase.PENDING
        return _desired(claim, phase, refusal.word, refusal.message)
    return _desired(claim, ClaimPhase.PENDING, ClaimReason.WAITING, f"pod {name} has not been placed yet")


def says(claim: Claim, desired: ClaimStatus) -> bool:
    """True if the claim has this status already."""
    return (claim.uid, claim.observed, claim.phase, claim.word, claim.message, claim.node, claim.gpu_ids) == (
        desired.uid,
        desired.generation,
        desired.phase,
        desired.word,
        desired.message,
        desired.node,
        desired.gpu_ids,
    )


def is_for_others_to_say(claim: Claim, desired: ClaimStatus) -> bool:
    """True if another scheduler may know better: two schedulers that correct each other would never end.

    The other scheduler may hold GPUs for the pod, or know why it waits. Bound, unused and finished are ours to correct.
    """
    if desired.word != ClaimReason.OTHER_SCHEDULER:
        return False
    plainly_wrong = claim.phase is ClaimPhase.BOUND or claim.word in ("", ClaimReason.UNUSED, ClaimReason.POD_FINISHED)
    return not plainly_wrong


def patience(claim: Claim, desired: ClaimStatus) -> Seconds:
    """Seconds the claim may keep its present status though `standing` is true."""
    if desired.phase is ClaimPhase.BOUND:
        return Seconds(0.0)
    if desired.phase is not claim.phase or claim.phase in _HOLDS:
        return SHORT_WAIT
    # A pod is tried soon after it is observed: the result is worth a write, and that it was not tried yet is not.
    if desired.word == ClaimReason.WAITING or desired.word == claim.word:
        return A_WHILE
    return SHORT_WAIT if claim.word in _NOT_REFUSALS or desired.word in _NOT_REFUSALS else A_WHILE


def _desired(claim: Claim, phase: ClaimPhase, word: str, message: str) -> ClaimStatus:
    return ClaimStatus(
        claim=claim.key,
        uid=claim.uid,
        generation=claim.generation,
        phase=phase,
        word=str(word),
        message=message[:LONGEST_MESSAGE],
    )


def _holding(claim: Claim, phase: ClaimPhase, word: ClaimReason, held: Allocation, message: str) -> ClaimStatus:
    return ClaimStatus(
        claim=claim.key,
        uid=claim.uid,
        generation=claim.generation,
        phase=phase,
        word=word.value,
        message=message,
        node=held.node,
        gpu_ids=tuple(sorted(held.devices)),
    )
