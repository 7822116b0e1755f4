"""All filter rules in the order they are evaluated, and their evaluation on one node.

The order is the order of `Reason`. A family lists its rules in its own file; a new rule of a family is not named here.
"""

from ullage.decide.placement.filters.affinity import AFFINITY_RULES
from ullage.decide.placement.filters.codes import CODE
from ullage.decide.placement.filters.node import NODE_RULES
from ullage.decide.placement.filters.pod_query import PodQuery
from ullage.decide.placement.filters.resources import RESOURCE_RULES
from ullage.decide.placement.filters.rule import ClusterRule, FilterRule
from ullage.decide.placement.filters.spread import SPREAD_RULES
from ullage.decide.placement.filters.vm import VM_RULES
from ullage.decide.placement.filters.volumes import VOLUME_RULES, VOLUME_USE_RULES
from ullage.model.node import Node
from ullage.model.verdict import Reason, Verdict

ROW_RULES: tuple[FilterRule, ...] = tuple(
    sorted((*NODE_RULES, *RESOURCE_RULES, *VM_RULES, *VOLUME_RULES), key=lambda rule: CODE[rule.reason])
)
"""Rules that look at the row alone."""

CLUSTER_RULES: tuple[ClusterRule, ...] = tuple(
    sorted((*VOLUME_USE_RULES, *SPREAD_RULES, *AFFINITY_RULES), key=lambda rule: CODE[rule.reason])
)
"""Rules that look beyond the row. They come after all others."""

RULES: tuple[FilterRule | ClusterRule, ...] = (*ROW_RULES, *CLUSTER_RULES)


def check_node(query: PodQuery, node: Node) -> Verdict:
    """Verdict of the first rule that rejects the node, else FITS."""
    for rule in RULES:
        detail = rule.explain(query, node)
        if detail is not None:
            return Verdict(rule.reason, detail)
    return Verdict(Reason.FITS)
