"""NodeClaims of requests that are over: whether their nodes, once there, would serve another request."""

from ullage.model.intents import CreateSmartPod
from ullage.model.karpenter import REQUEST_LABEL, NodeClaim
from ullage.model.selector import Operator, Requirement


def will_serve(claim: NodeClaim, smart_pod: CreateSmartPod) -> bool:
    """True if the smart pod of a request would fit on the node of the NodeClaim, whatever node that will be.

    Only what the NodeClaim asked for counts: a larger node, or one in the right zone by chance, is not waited for.
    """
    if any(claim.requests.get(name, 0) < amount for name, amount in smart_pod.requests):
        return False
    selected = (
        Requirement(key, Operator.IN, (value,)) for key, value in smart_pod.node_selector if key != REQUEST_LABEL
    )
    if not all(_holds(one, claim) for one in selected):
        return False
    terms = smart_pod.node_affinity
    return terms is None or any(
        not term.fields and bool(term.labels) and all(_holds(one, claim) for one in term.labels) for term in terms
    )


def _holds(wanted: Requirement, claim: NodeClaim) -> bool:
    """True if every node that the NodeClaim may become satisfies the requirement."""
    if wanted.key in claim.labels:
        return wanted.matches(claim.labels)
    for one in claim.requirements:
        if one.key == wanted.key and one.operator is Operator.IN and one.values:
            return all(wanted.matches({one.key: value}) for value in one.values)
    return wanted.matches({})
