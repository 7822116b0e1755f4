"""Failure mode 23 of docs/karpenter.md while a request is under way: its NodePool goes, or is not Ready any more."""

import pytest

from tests.decide.karpenter.cluster import NOON, Cluster, claim_pod, mapping, node_pool
from tests.decide.karpenter.outcomes import failure_of, serve_from_a_new_node
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import NodePool, ObservedCondition, Tristate
from ullage.model.karpenter_failure import FailureReason
from ullage.model.units import Instant

UNREADY = ObservedCondition(Tristate.FALSE, "NodeClassNotReady", "no class", Instant(NOON))


@pytest.mark.parametrize("other", [False, True], ids=["alone", "beside another"])
@pytest.mark.parametrize("how", ["deleted", "not ready"])
def test_23_a_node_pool_that_goes_midway_ends_the_request_at_once(how: str, other: bool) -> None:
    pools = [node_pool(), node_pool("gpu-dear")]
    mappings = (mapping(), mapping("dear", price_per_gpu=9_000_000))
    cluster = Cluster(claim_pod("a"), policy=KarpenterPolicy(mappings=mappings[: 1 + other]), pools=pools)
    cluster.ask()
    first = cluster.smart_pod
    if how == "deleted":
        cluster.drop(NodePool, ObjectKey("", "gpu-h100"))
    else:
        cluster.put(ObjectKey("", "gpu-h100"), node_pool(ready=UNREADY))
    cluster.settle()
    assert first.uid not in {one.uid for one in cluster.smart_pods}
    said = failure_of(cluster)
    expected = FailureReason.NODE_POOL_NOT_FOUND if how == "deleted" else FailureReason.NODE_POOL_NOT_READY
    assert (said.reason, bool(said.retry_at)) == (expected, other)
    cluster.now += cluster.policy.batch_window
    cluster.settle()
    assert [one.original.mapping for one in cluster.smart_pods if one.original] == (["dear"] if other else [])
    if not other:
        cluster.put(ObjectKey("", "gpu-h100"), node_pool())
        cluster.ask()
        assert cluster.smart_pods, "it serves again"


def test_23_a_node_claim_that_is_there_goes_on_while_its_node_pool_is_not_ready() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.karpenter_claims("Launched")
    cluster.put(ObjectKey("", "gpu-h100"), node_pool(ready=UNREADY))
    cluster.settle()
    serve_from_a_new_node(cluster)
