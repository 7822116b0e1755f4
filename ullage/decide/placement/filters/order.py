"""All filter rules in the order they are evaluated, and their evaluation on one node."""

from collections.abc import Callable, Sequence

from ullage.decide.placement.filters.node import NODE_RULES
from ullage.decide.placement.filters.pod_query import PodQuery
from ullage.decide.placement.filters.pods import (
    pods_here_avoid_it,
    pods_it_avoids_are_here,
    pods_it_wants_near_are_not_here,
    spread_would_be_too_uneven,
)
from ullage.decide.placement.filters.resources import (
    host_port_is_taken,
    node_is_full_of_pods,
    node_is_too_small,
    resources_are_taken,
)
from ullage.decide.placement.filters.volume import volume_is_elsewhere, volume_is_in_use, volume_is_not_ready
from ullage.model.node import Node
from ullage.model.verdict import Reason, Verdict

Rule = Callable[[PodQuery, Node], Verdict | None]
"""Filter rule: the verdict of a refusal, or None if the rule does not refuse the node."""

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
"""Rules evaluated after `NODE_RULES`."""


def judge(question: PodQuery, node: Node) -> Verdict:
    """Verdict of the first rule that refuses the node, else FITS."""
    for rule in NODE_RULES:
        verdict = rule(question.shape, node)
        if verdict is not None:
            return verdict
    for later in LATER_RULES:
        verdict = later(question, node)
        if verdict is not None:
            return verdict
    return Verdict(Reason.FITS)
