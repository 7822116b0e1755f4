"""All rules in the order they are asked, and the asking."""

from collections.abc import Callable, Sequence

from ullage.decide.fit.rules.node import NODE_RULES
from ullage.decide.fit.rules.pods import (
    pods_here_avoid_it,
    pods_it_avoids_are_here,
    pods_it_wants_near_are_not_here,
    spread_would_be_too_uneven,
)
from ullage.decide.fit.rules.question import Question
from ullage.decide.fit.rules.room import (
    host_port_is_taken,
    node_is_full_of_pods,
    node_is_too_small,
    resources_are_taken,
)
from ullage.decide.fit.rules.volume import volume_is_elsewhere, volume_is_in_use, volume_is_not_ready
from ullage.model.node import Node
from ullage.model.verdict import Reason, Verdict

Rule = Callable[[Question, Node], Verdict | None]
"""None where it has nothing against the node."""

LATER_RULES: Sequence[Rule] = (
    host_port_is_taken,
    node_is_too_small,
    node_is_full_of_pods,
    resources_are_taken,
    volume_is_not_ready,
    volume_is_elsewhere,
    volume_is_in_use,
    spread_would_be_too_uneven,
    pods_it_wants_near_are_not_here,
    pods_it_avoids_are_here,
    pods_here_avoid_it,
)
"""Asked after `NODE_RULES`."""


def judge(question: Question, node: Node) -> Verdict:
    """What the first rule that refuses says, or that the pod fits."""
    for rule in NODE_RULES:
        verdict = rule(question.shape, node)
        if verdict is not None:
            return verdict
    for later in LATER_RULES:
        verdict = later(question, node)
        if verdict is not None:
            return verdict
    return Verdict(Reason.FITS)
