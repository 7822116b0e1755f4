"""Which nodes are tried at all: named checks in order; the first that says something is the node's reason."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ullage.decide.drain.facts import DrainFacts, DrainPolicy
from ullage.decide.drain.utilisation import Shares
from ullage.model.drain import DRAINING_TAINT, Unremovable, WhyStays
from ullage.model.node import Node
from ullage.model.provisioner import DELETION_TAINT


@dataclass(frozen=True, slots=True)
class Census:
    """What checks look at beside the node."""

    facts: DrainFacts
    policy: DrainPolicy
    removing: Collection[str]
    used: Shares
    too_much: Sequence[bool]
    rows: dict[str, int]


Check = Callable[[Node, Census], Unremovable | None]


CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Labels of nodes that are never removed: what runs there is nobody's to move."""


def is_draining(node: Node) -> bool:
    """It has the taint that says so."""
    return any(taint.key == DRAINING_TAINT for taint in node.taints)


def under_removal(node: Node) -> bool:
    """It is being drained, or is to be deleted when it is empty."""
    return any(taint.key in (DRAINING_TAINT, DELETION_TAINT) for taint in node.taints)


def it_is_being_removed(node: Node, census: Census) -> Unremovable | None:
    gone = node.name in census.removing or (under_removal(node) and node.name not in census.facts.resumable)
    return _stays(node, WhyStays.BEING_REMOVED) if gone else None


def it_is_not_ours_to_remove(node: Node, census: Census) -> Unremovable | None:
    ours = census.facts.candidates
    if ours is None:
        taboo = any(label in node.labels for label in CONTROL_PLANE)
        return _stays(node, WhyStays.NOT_A_CANDIDATE, "it is the control plane's") if taboo else None
    return None if node.name in ours else _stays(node, WhyStays.NOT_A_CANDIDATE)


def its_owner_keeps_it(node: Node, _: Census) -> Unremovable | None:
    return _stays(node, WhyStays.SCALE_DOWN_DISABLED) if node.kept else None


def unready_nodes_may_stay(node: Node, census: Census) -> Unremovable | None:
    return None if node.ready or census.policy.unready_go else _stays(node, WhyStays.UNREADY_STAYS)


def it_is_used_too_much(node: Node, census: Census) -> Unremovable | None:
    row = census.rows[node.name]
    if not census.too_much[row]:
        return None
    return _stays(node, WhyStays.TOO_MUCH_USED, f"{census.used.item(row):.1%} in use")


def it_could_not_be_removed(node: Node, census: Census) -> Unremovable | None:
    why = census.facts.failed.get(node.name)
    return None if why is None else _stays(node, WhyStays.FAILED_LATELY, why)


CHECKS: Sequence[Check] = (
    it_is_being_removed,
    it_is_not_ours_to_remove,
    its_owner_keeps_it,
    it_could_not_be_removed,
    unready_nodes_may_stay,
    it_is_used_too_much,
)


def ineligible(node: Node, census: Census) -> Unremovable | None:
    """Why a node is not tried; None if it is."""
    for check in CHECKS:
        answer = check(node, census)
        if answer is not None:
            return answer
    return None


def _stays(node: Node, why: WhyStays, detail: str = "") -> Unremovable:
    return Unremovable(node=node.name, why=why, detail=detail)
