"""Whether a pod that was refused could be helped by anything but a change of what it asks for.

A refusal is hopeless if the claim itself is wrong, or if no node there is could take the pod even if empty. That is not
for ever: a claim that is changed, or a larger node that comes, makes it an ordinary refusal. What is missing (a
claim, a PodGroup) can be made, what is taken can be given back, and gates can be opened: there is hope.
"""

from collections.abc import Collection

from ullage.model.pod import Pod
from ullage.model.verdict import Reason
from ullage.state.placements import Placements


def hopeless_reason(pod: Pod, reasons: Collection[Reason], placements: Placements) -> Reason | None:
    """The reason that is for good, if one is: then it is the one to tell, however many nodes gave another.

    `pod` as it was to be placed, with what its claim asks for; `reasons` what it was refused for, on any node.
    """
    if Reason.CLAIM_INVALID in reasons:
        return Reason.CLAIM_INVALID
    too_large = Reason.NODE_TOO_SMALL in reasons and is_too_large(pod, placements)
    return Reason.NODE_TOO_SMALL if too_large else None


def is_hopeless(pod: Pod, reasons: Collection[Reason], placements: Placements) -> bool:
    """Whether one of the reasons is for good."""
    return hopeless_reason(pod, reasons, placements) is not None


def is_too_large(pod: Pod, placements: Placements) -> bool:
    """Whether no node offers as much as the pod needs, whoever is on it and whatever keeps pods off it."""
    columns = placements.columns
    needs = columns.indexed(pod.shape.requests)
    offers = columns.alive[: columns.size].copy()
    if not offers.any():
        return False  # nothing is known of nodes: the first may be large enough
    for index, amount in needs:
        offers &= columns.allocatable[index, : columns.size] >= amount
    return not offers.any()
