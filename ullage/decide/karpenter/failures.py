"""Classify Karpenter's Events on smart pods and NodeClaims by a closed list of reasons.

The fragments are of Karpenter 1.12 to 1.14. An Event about a pod joins one fragment per NodePool with "; ": the request
selects one NodePool by its label, so the fragment of that NodePool decides where it is named.
"""

from ullage.model.karpenter import KarpenterEvent, NodeClaim
from ullage.model.karpenter_failure import FailureKind, FailureReason, RequestFailure

FAILED_SCHEDULING = "FailedScheduling"
INSUFFICIENT = "InsufficientCapacityError"
NODE_CLASS_NOT_READY = "NodeClassNotReady"

_FRAGMENTS: tuple[tuple[str, FailureReason], ...] = (
    # Limits first: their message also carries "incompatible requirements" of NodePools the pod does not select.
    ("all available instance types exceed limits for nodepool", FailureReason.NODE_POOL_LIMIT),
    ("node limits have been exhausted for nodepool", FailureReason.NODE_POOL_LIMIT),
    # Two permanent messages contain "required offering"; the transient ones are matched by their whole wording.
    ("no instance type which had enough resources and the required offering met", FailureReason.NO_INSTANCE_TYPE),
    (
        "no instance type which met the scheduling requirements and the required offering",
        FailureReason.NO_INSTANCE_TYPE,
    ),
    ("had a required offering", FailureReason.NO_OFFERING),
    ("no instance type has the required offering", FailureReason.NO_OFFERING),
    ("nodepool requirements filtered out all available instance types", FailureReason.NO_OFFERING),
    ("no instance type has enough resources", FailureReason.NO_INSTANCE_TYPE),
    ("no instance type met all requirements", FailureReason.NO_INSTANCE_TYPE),
    ("no instance type met the scheduling requirements", FailureReason.NO_INSTANCE_TYPE),
    ("dynamic resource allocation requirements", FailureReason.DRA_UNSUPPORTED),
    ("did not tolerate taint", FailureReason.TAINT_NOT_TOLERATED),
    ("does not have known values", FailureReason.INCOMPATIBLE),
    ("incompatible requirements", FailureReason.INCOMPATIBLE),
)

_LONGEST = 400


def classify(note: str, node_pool: str = "") -> RequestFailure | None:
    """Failure of a FailedScheduling note; None if its text is not known: then the deadline decides."""
    for part in _parts_about(note, node_pool):
        lowered = part.lower()
        for fragment, reason in _FRAGMENTS:
            if fragment in lowered:
                return RequestFailure(reason, part[:_LONGEST])
    return None


def _parts_about(note: str, node_pool: str) -> tuple[str, ...]:
    """Parts of a note that name the NodePool, or else the whole note."""
    parts = tuple(part.strip() for part in note.split("; ") if part.strip())
    named = tuple(part for part in parts if node_pool and _names(part, node_pool))
    return named or (note.strip(),)


def _names(part: str, node_pool: str) -> bool:
    lowered = part.lower()
    return any(
        mark in lowered for mark in (f'nodepool "{node_pool}"', f"nodepool={node_pool})", f"nodepool={node_pool},")
    )


def failure_of(event: KarpenterEvent, node_pool: str = "") -> RequestFailure | None:
    """Failure that an Event reports, if any."""
    if event.reason == FAILED_SCHEDULING:
        return classify(event.note, node_pool)
    if event.reason in (INSUFFICIENT, NODE_CLASS_NOT_READY):
        return RequestFailure(FailureReason.INSUFFICIENT_CAPACITY, event.note[:_LONGEST])
    return None


def is_final(failure: RequestFailure) -> bool:
    """True if the smart pod is of no further use: Karpenter's next attempt would fail in the same way."""
    return failure.kind in (FailureKind.PERMANENT, FailureKind.LIMITS)


def lost(claim_name: str, *, launched: bool, said: KarpenterEvent | None) -> RequestFailure:
    """Failure of a NodeClaim deleted before its node was used: insufficient capacity unless it had been launched."""
    if said is not None and (known := failure_of(said)) is not None:
        return known
    if launched:
        return RequestFailure(
            FailureReason.NODE_CLAIM_LOST, f"NodeClaim {claim_name} was deleted before its node registered"
        )
    return RequestFailure(
        FailureReason.INSUFFICIENT_CAPACITY, f"NodeClaim {claim_name} was deleted before it was launched"
    )


def stuck(claim: NodeClaim | None, condition: str) -> str:
    """Reason and message of the condition that a NodeClaim waits for; empty if Karpenter gives none."""
    if claim is None:
        return ""
    said = claim.condition(condition)
    return ": ".join(word for word in (said.reason, said.message) if word)[:_LONGEST]
