"""Hopeless refusals: a refused pod that only a changed request or a larger node could help.

A refusal is hopeless if the claim itself is invalid, or if no existing node could take the pod even if empty. This can
end: a changed claim, or a larger node that joins, makes it an ordinary refusal. Other refusals are not hopeless: a
missing claim or PodGroup can be created, taken resources can be freed, and scheduling gates can be removed.
"""

from collections.abc import Collection

from ullage.model.pod import Pod
from ullage.model.verdict import Reason
from ullage.state.snapshot import ClusterSnapshot


def hopeless_reason(pod: Pod, reasons: Collection[Reason], placements: ClusterSnapshot) -> Reason | None:
    """Hopeless reason of a refusal, if it has one. It is the reason to report, however many nodes gave another.

    `pod` is the pod as it was to be placed, with what its claim asks for. `reasons` are the reasons of all nodes.
    """
    if Reason.CLAIM_INVALID in reasons:
        return Reason.CLAIM_INVALID
    too_large = Reason.NODE_TOO_SMALL in reasons and is_too_large(pod, placements)
    return Reason.NODE_TOO_SMALL if too_large else None


def is_hopeless(pod: Pod, reasons: Collection[Reason], placements: ClusterSnapshot) -> bool:
    """True if one of the reasons is hopeless."""
    return hopeless_reason(pod, reasons, placements) is not None


def is_too_large(pod: Pod, placements: ClusterSnapshot) -> bool:
    """True if no node has enough allocatable for the pod, whatever runs there. False while no node is known."""
    columns = placements.columns
    needs = columns.needs(pod.shape.requests)
    offers = columns.alive[: columns.size].copy()
    if not offers.any():
        return False  # nothing is known of nodes: the first may be large enough
    for index, amount in needs:
        offers &= columns.allocatable[index, : columns.size] >= amount
    return not offers.any()
