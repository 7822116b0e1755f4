"""Eligibility of nodes for a removal trial: named checks in order. The first that answers is the node's reason."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import isfinite

from ullage.decide.draining.inputs import DrainInputs, DrainPolicy
from ullage.decide.draining.utilisation import Shares
from ullage.model.draining import DRAINING_TAINT, UnremovableNode, UnremovableReason
from ullage.model.node import Node
from ullage.model.provisioner import DELETION_TAINT


@dataclass(frozen=True, slots=True)
class EligibilityContext:
    """Inputs of the checks beside the node."""

    facts: DrainInputs
    policy: DrainPolicy
    removing: Collection[str]
    used: Shares
    too_much: Sequence[bool]
    rows: dict[str, int]


Check = Callable[[Node, EligibilityContext], UnremovableNode | None]


CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Labels of control plane nodes. They are never candidates, unless `DrainInputs.candidates` names them."""


def is_draining(node: Node) -> bool:
    """True if the node has the draining taint."""
    return any(taint.key == DRAINING_TAINT for taint in node.taints)


def under_removal(node: Node) -> bool:
    """True if the node is being drained, or is marked for deletion."""
    return any(taint.key in (DRAINING_TAINT, DELETION_TAINT) for taint in node.taints)


def it_is_being_removed(node: Node, census: EligibilityContext) -> UnremovableNode | None:
    gone = node.name in census.removing or (under_removal(node) and node.name not in census.facts.resumable)
    return _stays(node, UnremovableReason.BEING_REMOVED) if gone else None


def it_is_not_ours_to_remove(node: Node, census: EligibilityContext) -> UnremovableNode | None:
    ours = census.facts.candidates
    if ours is None:
        taboo = any(label in node.labels for label in CONTROL_PLANE)
        return _stays(node, UnremovableReason.NOT_A_CANDIDATE, "it is the control plane's") if taboo else None
    return None if node.name in ours else _stays(node, UnremovableReason.NOT_A_CANDIDATE)


def its_owner_keeps_it(node: Node, _: EligibilityContext) -> UnremovableNode | None:
    return _stays(node, UnremovableReason.SCALE_DOWN_DISABLED) if node.kept else None


def unready_nodes_may_stay(node: Node, census: EligibilityContext) -> UnremovableNode | None:
    return None if node.ready or census.policy.unready_go else _stays(node, UnremovableReason.UNREADY_STAYS)


def it_is_used_too_much(node: Node, census: EligibilityContext) -> UnremovableNode | None:
    row = census.rows[node.name]
    if not census.too_much[row]:
        return None
    share = census.used.item(row)
    detail = f"{share:.1%} in use" if isfinite(share) else "in use, and it offers nothing any more"
    return _stays(node, UnremovableReason.TOO_MUCH_USED, detail)


def it_could_not_be_removed(node: Node, census: EligibilityContext) -> UnremovableNode | None:
    why = census.facts.failed.get(node.name)
    return None if why is None else _stays(node, UnremovableReason.FAILED_LATELY, why)


CHECKS: Sequence[Check] = (
    it_is_being_removed,
    it_is_not_ours_to_remove,
    its_owner_keeps_it,
    it_could_not_be_removed,
    unready_nodes_may_stay,
    it_is_used_too_much,
)


def ineligible(node: Node, census: EligibilityContext) -> UnremovableNode | None:
    """Reason why a node is not tried; None if it is eligible."""
    for check in CHECKS:
        answer = check(node, census)
        if answer is not None:
            return answer
    return None


def _stays(node: Node, why: UnremovableReason, detail: str = "") -> UnremovableNode:
    return UnremovableNode(node=node.name, why=why, detail=detail)
