"""Filter rules about other pods: spread constraints, affinity, and anti-affinity in both directions."""

from ullage.decide.placement.filters.pod_query import PodQuery
from ullage.model.node import Node
from ullage.model.verdict import Reason, Verdict


def spread_would_be_too_uneven(question: PodQuery, node: Node) -> Verdict | None:
    for domains in question.spread:
        constraint = domains.constraint
        value = node.labels.get(constraint.topology_key)
        if value is None:
            return Verdict(Reason.SPREAD_KEY_MISSING, f"the node has no label {constraint.topology_key}")
        itself = constraint.counts_itself(dict(question.shape.labels))
        here = domains.pods.get(value, 0) + itself
        if here - domains.least > constraint.max_skew:
            return Verdict(
                Reason.SPREAD_TOO_UNEVEN,
                f"{constraint.topology_key}={value} would have {here} pods, the least is {domains.least},"
                f" allowed difference {constraint.max_skew}",
            )
    return None


def pods_it_wants_near_are_not_here(question: PodQuery, node: Node) -> Verdict | None:
    terms = question.shape.near
    for term in terms:
        if term.topology_key not in node.labels:
            return Verdict(Reason.POD_AFFINITY_UNMET, f"the node has no label {term.topology_key}")
    for term in terms:
        value = node.labels[term.topology_key]
        if question.near.get((term.topology_key, value), 0) <= 0:
            if _is_first_of_its_kind(question):
                return None
            return Verdict(Reason.POD_AFFINITY_UNMET, f"no pod it wants near is in {term.topology_key}={value}")
    return None


def _is_first_of_its_kind(question: PodQuery) -> bool:
    """True if no pod matches its affinity anywhere and the pod matches it itself: then it is the first of its group."""
    return not question.near and all(question.meant(term, question.pod) for term in question.shape.near)


def pods_it_avoids_are_here(question: PodQuery, node: Node) -> Verdict | None:
    for term in question.shape.away:
        value = node.labels.get(term.topology_key)
        if value is not None and question.away.get((term.topology_key, value), 0) > 0:
            return Verdict(Reason.POD_ANTI_AFFINITY, f"a pod it avoids is in {term.topology_key}={value}")
    return None


def pods_here_avoid_it(question: PodQuery, node: Node) -> Verdict | None:
    for (key, value), pods in question.refused.items():
        if pods > 0 and node.labels.get(key) == value:
            return Verdict(Reason.EXISTING_ANTI_AFFINITY, f"a pod in {key}={value} avoids it")
    return None
