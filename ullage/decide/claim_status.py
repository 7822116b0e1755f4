"""How a claim stands: a function of the pod that uses it, and of nothing that was said before.

What the pod's bound allocation says goes before what we remember. A claim whose pod is gone or over holds nothing.
"""

from ullage.model.allocation import Allocation
from ullage.model.claim import Claim, ClaimPhase
from ullage.model.pod import Pod
from ullage.model.refusal import Refusal
from ullage.model.standing import ClaimWord, Standing


def claim_standing(
    claim: Claim, pod: Pod | None, *, reserved: Allocation | None = None, refusal: Refusal | None = None
) -> Standing:
    """`pod` is the one that uses the claim; `reserved` what is leased to it for a bind under way.

    A refusal counts only while the pod has no place and nothing is held for it.
    """
    if pod is None:
        return _standing(claim, ClaimPhase.PENDING, ClaimWord.UNUSED, "no pod uses it")
    if pod.phase.over:
        return _standing(claim, ClaimPhase.PENDING, ClaimWord.POD_FINISHED, f"pod {pod.key.name} has finished")
    if pod.node:
        held = Allocation(pod.node, pod.gpu_ids)
        return _holding(claim, ClaimPhase.BOUND, ClaimWord.BOUND, held, f"pod {pod.key.name} is on {pod.node}")
    if reserved is not None:
        words = f"held for pod {pod.key.name} on {reserved.node}, which is not bound yet"
        return _holding(claim, ClaimPhase.RESERVED, ClaimWord.RESERVED, reserved, words)
    if refusal is not None:
        phase = ClaimPhase.FAILED if refusal.hopeless else ClaimPhase.PENDING
        return _standing(claim, phase, refusal.word, refusal.message)
    return _standing(claim, ClaimPhase.PENDING, ClaimWord.WAITING, f"pod {pod.key.name} has not been placed yet")


def _standing(claim: Claim, phase: ClaimPhase, word: str, message: str) -> Standing:
    return Standing(
        claim=claim.key, uid=claim.uid, generation=claim.generation, phase=phase, word=str(word), message=message
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
