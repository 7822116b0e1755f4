"""How a claim stands: a function of the pod that uses it, and of nothing that was said before.

What the pod's bound allocation says goes before what we remember. A claim whose pod is gone or over holds nothing. How
long a status may go on saying something else is decided here, too: the shorter, the more wrong it is.
"""

from ullage.model.allocation import Allocation
from ullage.model.claim import Claim, ClaimPhase
from ullage.model.pod import Pod
from ullage.model.refusal import Refusal
from ullage.model.standing import LONGEST_MESSAGE, ClaimWord, Standing
from ullage.model.verdict import Reason

A_MOMENT = 1.0
"""Seconds: what is likely to be overtaken by a bind is not written before."""
A_WHILE = 30.0
"""Seconds: one reason to wait for another, or another count in its words, is worth a write now and then."""

_HOLDS = (ClaimPhase.RESERVED, ClaimPhase.BOUND)
_NOT_REFUSALS = frozenset({"", Reason.SCHEDULING_GATED, *ClaimWord})
_OF_ANOTHER_MOMENT = (Reason.CLAIM_MISSING, Reason.CLAIM_IN_USE)
"""What the pod that has the claim cannot be refused for any more."""


def claim_standing(
    claim: Claim,
    pod: Pod | None,
    *,
    reserved: Allocation | None = None,
    refusal: Refusal | None = None,
    ours: bool = True,
    template: bool = False,
) -> Standing:
    """`pod` is the one that uses the claim; `reserved` what is leased to it for a bind under way.

    A refusal counts only while the pod has no place and nothing is held for it. `ours`: this scheduler is the one to
    place the pod. `template`: pods get copies of the claim.
    """
    if pod is None:
        words = "a template: pods that name it have copies of their own" if template else "no pod uses it"
        return _standing(claim, ClaimPhase.PENDING, ClaimWord.UNUSED, words)
    name = pod.key.name
    if pod.phase.over:
        return _standing(claim, ClaimPhase.PENDING, ClaimWord.POD_FINISHED, f"pod {name} has finished")
    if pod.node:
        held = Allocation(pod.node, pod.gpu_ids)
        return _holding(claim, ClaimPhase.BOUND, ClaimWord.BOUND, held, f"pod {name} is on {pod.node}")
    if reserved is not None:
        words = f"held for pod {name} on {reserved.node}, which is not bound yet"
        return _holding(claim, ClaimPhase.RESERVED, ClaimWord.RESERVED, reserved, words)
    if pod.gated:
        return _standing(claim, ClaimPhase.PENDING, Reason.SCHEDULING_GATED, f"pod {name} has scheduling gates")
    if not ours:
        words = f"pod {name} is for scheduler {pod.scheduler} to place, which may not look at claims"
        return _standing(claim, ClaimPhase.PENDING, ClaimWord.OTHER_SCHEDULER, words)
    if refusal is not None and refusal.word not in _OF_ANOTHER_MOMENT:
        phase = ClaimPhase.FAILED if refusal.hopeless else ClaimPhase.PENDING
        return _standing(claim, phase, refusal.word, refusal.message)
    return _standing(claim, ClaimPhase.PENDING, ClaimWord.WAITING, f"pod {name} has not been placed yet")


def says(claim: Claim, standing: Standing) -> bool:
    """Whether the claim's status says this already."""
    return (claim.uid, claim.observed, claim.phase, claim.word, claim.message, claim.node, claim.gpu_ids) == (
        standing.uid,
        standing.generation,
        standing.phase,
        standing.word,
        standing.message,
        standing.node,
        standing.gpu_ids,
    )


def is_for_others_to_say(claim: Claim, standing: Standing) -> bool:
    """Whether another scheduler may know better: two that correct each other would never end.

    It may hold GPUs for the pod, or know why it waits; it cannot know that the pod is bound, or that there is none.
    """
    if standing.word != ClaimWord.OTHER_SCHEDULER:
        return False
    plainly_wrong = claim.phase is ClaimPhase.BOUND or claim.word in ("", ClaimWord.UNUSED, ClaimWord.POD_FINISHED)
    return not plainly_wrong


def patience(claim: Claim, standing: Standing) -> float:
    """How many seconds the claim's status may go on as it is, though this is true."""
    if standing.phase is ClaimPhase.BOUND:
        return 0.0
    if standing.phase is not claim.phase or claim.phase in _HOLDS:
        return A_MOMENT
    # A pod is tried soon after it is seen: what comes of that is worth more than that it has not been.
    if standing.word == ClaimWord.WAITING or standing.word == claim.word:
        return A_WHILE
    return A_MOMENT if claim.word in _NOT_REFUSALS or standing.word in _NOT_REFUSALS else A_WHILE


def _standing(claim: Claim, phase: ClaimPhase, word: str, message: str) -> Standing:
    return Standing(
        claim=claim.key,
        uid=claim.uid,
        generation=claim.generation,
        phase=phase,
        word=str(word),
        message=message[:LONGEST_MESSAGE],
    )


def _holding(claim: Claim, phase: ClaimPhase, word: ClaimWord, held: Allocation, message: str) -> Standing:
    return Standing(
        claim=claim.key,
        uid=claim.uid,
        generation=claim.generation,
        phase=phase,
        word=word.value,
        message=message,
        node=held.node,
        gpu_ids=tuple(sorted(held.devices)),
    )
