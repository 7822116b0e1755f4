"""What people are told of a node that Karpenter makes: when it is expected, by those that came before it."""

from typing import Any

import pytest

from tests.decide.karpenter.cluster import Cluster, claim_pod
from ullage.decide.karpenter.facts import KarpenterFacts
from ullage.decide.karpenter.outlook import explain_capacity
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.karpenter import NODE_POOL_LABEL, REQUEST_LABEL, NodeClaim, ObservedCondition, Tristate
from ullage.model.units import Instant


def node_claim(name: str, request: str, created: float, ready: float | None) -> NodeClaim:
    """`ready`: seconds after its creation."""
    since = None if ready is None else ObservedCondition(Tristate.TRUE, "", "", Instant(created + ready))
    return NodeClaim(
        name=name,
        uid=name,
        created=Instant(created),
        deleting=False,
        labels={REQUEST_LABEL: request, NODE_POOL_LABEL: "gpu-h100"},
        node="",
        conditions={} if since is None else {"Ready": since},
    )


@pytest.mark.parametrize(
    ("earlier", "elapsed", "said"),
    [
        ((), 10.0, "when it comes is not known: no NodeClaim of NodePool gpu-h100 has become Ready yet"),
        ((40.0,), 10.0, "1 earlier NodeClaim of NodePool gpu-h100 took 40 to 40 s"),
        ((60.0, 40.0, 50.0), 10.0, "in 40 s, nine of ten by"),
        (
            (60.0, 40.0, 50.0),
            70.0,
            "it is late: 70 s so far, and 3 earlier NodeClaims of NodePool gpu-h100 took 60 s or",
        ),
    ],
    ids=["the first", "the second", "the fourth", "later than all"],
)
def test_when_a_node_is_expected(earlier: tuple[float, ...], elapsed: float, said: str) -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    smart, facts = cluster.smart_pod, KarpenterFacts()
    known: list[Any] = [node_claim(f"old-{n}", f"q{n}", cluster.now - 1000, took) for n, took in enumerate(earlier)]
    for fact in (smart, *known, node_claim("new", smart.request, cluster.now, None)):
        facts.apply(Added(getattr(fact, "key", ObjectKey("", "x")), fact))
    (pod,) = (one for one in cluster.snapshot.state.pods.values() if one.key.name == "a")
    sentences = explain_capacity(facts, pod, now=Instant(cluster.now + elapsed))
    assert said in sentences[-1]
