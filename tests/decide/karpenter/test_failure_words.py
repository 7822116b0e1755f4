"""Failure modes 6 to 9 of docs/karpenter.md: Karpenter's words, lost NodeClaims, and the next attempt."""

import msgspec
import pytest

from tests.decide.karpenter.cluster import A100, Cluster, claim_pod, mapping, node_pool
from tests.decide.karpenter.outcomes import created, ends_of, failure_of, node_is_there
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.kube.client.resource import JsonObject
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import POOL_LABEL, NodeClaim, NodePool, ObservedCondition, Tristate
from ullage.model.karpenter_failure import FailureReason
from ullage.model.lifecycles import SmartPodState as S
from ullage.model.resources import GPU


@pytest.mark.parametrize(
    ("note", "reason"),
    [
        (
            "Failed to schedule pod, no instance type has enough resources, requirements=x",
            FailureReason.NO_INSTANCE_TYPE,
        ),
        (
            'Failed to schedule pod, incompatible requirements, label "other" does not have known values',
            FailureReason.INCOMPATIBLE,
        ),
        ("Failed to schedule pod, did not tolerate taint x=y:NoSchedule", FailureReason.TAINT_NOT_TOLERATED),
        (
            "Failed to schedule pod, all available instance types exceed limits for nodepool (NodePool=gpu-h100); "
            'incompatible requirements, label "x" does not have known values',
            FailureReason.NODE_POOL_LIMIT,
        ),
    ],
)
def test_06_a_final_word_of_karpenter_ends_the_request(note: str, reason: FailureReason) -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.karpenter_says(note)
    cluster.settle()
    assert ends_of(cluster) == [S.FAILED]
    assert failure_of(cluster).reason is reason
    cluster.turn(seconds=60.0)
    assert not cluster.smart_pods, "asking again would say the same"


@pytest.mark.parametrize(("used", "pause"), [(0, 10.0), (8_000, 300.0)])
def test_06_a_limit_that_is_not_reached_is_tried_again_soon(used: int, pause: float) -> None:
    """Karpenter counts each NodeClaim of a batch as its largest candidate."""
    cluster = Cluster(claim_pod("a"), pools=[node_pool(limits={GPU: 8_000})])
    cluster.ask()
    full = msgspec.structs.replace(node_pool(limits={GPU: 8_000}), usage={GPU: used})
    cluster.put(ObjectKey("", "gpu-h100"), full)
    cluster.karpenter_says("all available instance types exceed limits for nodepool (NodePool=gpu-h100)")
    cluster.settle()
    assert failure_of(cluster).retry_at == cluster.now + pause


def test_06_a_permanent_failure_is_tried_again_when_the_node_pool_changes() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.karpenter_says("no instance type has enough resources")
    cluster.settle()
    cluster.put(ObjectKey("", "gpu-h100"), node_pool(requirements=node_pool().requirements, ready=node_pool().ready))
    cluster.ask()
    assert not cluster.smart_pods, "the same NodePool said so"
    changed = msgspec.structs.replace(node_pool(), generation=2)
    cluster.put(ObjectKey("", "gpu-h100"), changed)
    cluster.ask()
    assert len(cluster.smart_pods) == 1


def test_06_without_a_word_time_decides() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.turn(seconds=119.0)
    assert cluster.smart_pods
    assert cluster.core.next_deadline() == pytest.approx(cluster.smart_pod.created + 120.0)
    cluster.turn(seconds=1.5)
    assert ends_of(cluster) == [S.EXPIRED]
    assert failure_of(cluster).reason is FailureReason.PENDING_TIMEOUT


def test_06_a_word_about_capacity_waits_for_the_deadline() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.karpenter_says("Failed to schedule pod, no instance type has the required offering")
    cluster.turn(seconds=60.0)
    assert cluster.smart_pods, "Karpenter tries other offerings by itself"
    cluster.turn(seconds=61.0)
    assert failure_of(cluster).reason is FailureReason.NO_OFFERING


def test_07_insufficient_capacity_stays_pending_and_is_counted() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    for attempt in (1, 2):
        cluster.karpenter_claims(name=f"claim-{attempt}")
        cluster.settle()
        assert cluster.state() is S.NOMINATED
        cluster.drop(NodeClaim, ObjectKey("", f"claim-{attempt}"))
        cluster.settle()
        assert cluster.state() is S.PENDING
        assert cluster.smart_pod.attempts == attempt
    cluster.karpenter_claims(name="claim-3")
    cluster.settle()
    cluster.drop(NodeClaim, ObjectKey("", "claim-3"))
    cluster.turn()
    assert failure_of(cluster).reason is FailureReason.INSUFFICIENT_CAPACITY
    assert failure_of(cluster).attempts == 3
    assert failure_of(cluster).retry_at > cluster.now


def test_07_other_candidates_are_tried_before_backing_off() -> None:
    policy = KarpenterPolicy(mappings=(mapping("h100"), mapping("dear", price_per_gpu=9_000_000)), max_retry_attempts=1)
    cluster = Cluster(claim_pod("a"), policy=policy, pools=[node_pool("gpu-h100"), node_pool("gpu-dear")])
    cluster.ask()
    assert cluster.smart_pod.original is not None
    assert cluster.smart_pod.original.mapping == "h100"
    cluster.karpenter_claims()
    cluster.settle()
    cluster.drop(NodeClaim, ObjectKey("", "gpu-h100-abc"))
    cluster.settle()
    cluster.ask()
    assert cluster.smart_pod.original.mapping == "dear", "the next cheapest"


CHEAP_AND_DEAR = (mapping("h100"), mapping("dear", price_per_gpu=9_000_000))
TOO_SMALL = "no instance type has enough resources"
REFUSALS = [
    pytest.param(TOO_SMALL, FailureReason.NO_INSTANCE_TYPE, id="no instance type"),
    pytest.param("incompatible requirements, key x", FailureReason.INCOMPATIBLE, id="incompatible"),
    pytest.param("did not tolerate taint x=y:NoSchedule", FailureReason.TAINT_NOT_TOLERATED, id="taint"),
]


def _two_mappings(*objects: list[JsonObject], **pools: NodePool) -> Cluster:
    known = {name: node_pool(name) for name in ("gpu-h100", "gpu-dear")} | pools
    policy = KarpenterPolicy(mappings=CHEAP_AND_DEAR, max_retry_attempts=1)
    return Cluster(*(objects or (claim_pod("a"),)), policy=policy, pools=list(known.values()))


def _asked(cluster: Cluster) -> list[str]:
    """Mappings of all smart pods there ever were, in their order."""
    return [dict(one.labels)[POOL_LABEL] for one in created(cluster)]


@pytest.mark.parametrize(("word", "reason"), REFUSALS)
def test_07_a_final_word_about_one_mapping_leaves_the_others(word: str, reason: FailureReason) -> None:
    cluster = _two_mappings()
    cluster.ask()
    cluster.karpenter_says(word)
    cluster.settle()
    assert failure_of(cluster).reason is reason
    cluster.ask()
    assert _asked(cluster) == ["h100", "dear"]
    cluster.restart()
    cluster.karpenter_says(TOO_SMALL)
    cluster.settle()
    cluster.ask()
    for _ in range(20):
        cluster.turn(seconds=60.0)
    assert _asked(cluster) == ["h100", "dear"], "each was asked once"
    said = failure_of(cluster)
    assert (said.reason, said.retry_at) == (FailureReason.NO_INSTANCE_TYPE, 0.0)
    assert said.message == f"h100: {word}; dear: {TOO_SMALL}"
    cluster.put(ObjectKey("", "gpu-h100"), msgspec.structs.replace(node_pool("gpu-h100"), generation=2))
    cluster.ask()
    assert _asked(cluster) == ["h100", "dear", "h100"], "a changed NodePool is asked again"


def test_07_attempts_that_a_user_resets_ask_no_mapping_twice() -> None:
    mappings = (*CHEAP_AND_DEAR, mapping("dearest", price_per_gpu=20_000_000))
    pools = [node_pool(one.node_pool) for one in mappings]
    cluster = Cluster(claim_pod("a"), policy=KarpenterPolicy(mappings=mappings), pools=pools)
    for _ in range(6):
        cluster.ask()
        for one in cluster.smart_pods:
            cluster.put(one.key, msgspec.structs.replace(one, attempts=0))
            cluster.karpenter_says(TOO_SMALL)
        cluster.settle()
    assert _asked(cluster) == ["h100", "dear", "dearest"]


def test_07_a_node_that_does_not_suit_leaves_the_other_mapping() -> None:
    cluster = _two_mappings(claim_pod("a", model="H100"))
    cluster.ask()
    node_is_there(cluster)
    cluster.agent_reports(model=A100)
    cluster.settle()
    cluster.now += 301.0
    cluster.agent_reports(model=A100)
    cluster.settle()
    assert failure_of(cluster).reason is FailureReason.NODE_UNSUITABLE
    cluster.ask()
    assert _asked(cluster) == ["h100", "dear"]


def test_07_a_mapping_without_capacity_is_asked_again_beside_one_that_refused() -> None:
    cluster = _two_mappings()
    cluster.ask()
    cluster.karpenter_claims()
    cluster.settle()
    cluster.drop(NodeClaim, ObjectKey("", "gpu-h100-abc"))
    cluster.settle()
    cluster.ask()
    cluster.karpenter_says(TOO_SMALL)
    cluster.settle()
    assert failure_of(cluster).retry_at > cluster.now, "the cheap one may have capacity later"
    for _ in range(20):
        cluster.turn(seconds=60.0)
        cluster.settle()
    assert _asked(cluster)[:3] == ["h100", "dear", "h100"]
    assert _asked(cluster).count("dear") == 1, "it said its last word"


@pytest.mark.parametrize(
    ("other", "pause", "word"),
    [
        pytest.param(node_pool("gpu-dear", limits={GPU: 0}), 300.0, TOO_SMALL, id="at its limits"),
        pytest.param(node_pool("elsewhere"), 0.0, "NodePool gpu-dear does not exist", id="absent"),
    ],
)
def test_07_a_mapping_that_cannot_buy_now_is_waited_for(other: NodePool, pause: float, word: str) -> None:
    policy = KarpenterPolicy(mappings=CHEAP_AND_DEAR)
    cluster = Cluster(claim_pod("a"), policy=policy, pools=[node_pool("gpu-h100"), other])
    cluster.ask()
    cluster.karpenter_says(TOO_SMALL)
    cluster.settle()
    said = failure_of(cluster)
    assert said.retry_at == (cluster.now + pause if pause else 0.0)
    assert word in said.message
    cluster.put(ObjectKey("", "gpu-dear"), msgspec.structs.replace(node_pool("gpu-dear"), generation=2))
    cluster.drop(NodePool, ObjectKey("", "gpu-h100"))
    cluster.ask()
    assert _asked(cluster) == ["h100", "dear"]


def test_07_limits_that_only_karpenter_sees_lead_to_the_next_mapping() -> None:
    cluster = _two_mappings()
    cluster.ask()
    cluster.karpenter_says("all available instance types exceed limits for nodepool (NodePool=gpu-h100)")
    cluster.settle()
    cluster.ask()
    assert _asked(cluster) == ["h100", "dear"]


def test_07_a_gang_goes_on_to_the_next_mapping_together() -> None:
    members = [claim_pod(name, 8, gangRef="g", gangMinMember=2) for name in ("a", "b")]
    cluster = _two_mappings(*members)
    cluster.ask()
    first, _ = cluster.smart_pods
    cluster.karpenter_says(TOO_SMALL, smart=first)
    cluster.settle()
    assert not cluster.smart_pods or len(cluster.smart_pods) == 2
    cluster.ask()
    assert sorted(_asked(cluster)) == ["dear", "h100", "h100", "h100"], "only the refused member leaves the cheap one"
    assert len(cluster.smart_pods) == 2
    refused = next(one for one in cluster.smart_pods if one.original and one.original.mapping == "dear")
    cluster.karpenter_says(TOO_SMALL, smart=refused)
    cluster.settle()
    cluster.turn(seconds=600.0)
    assert not cluster.smart_pods, "no mapping is left for one member: nothing is bought for the other"


def test_08_a_launched_claim_that_is_deleted_is_lost() -> None:
    cluster = Cluster(claim_pod("a"), policy=KarpenterPolicy(mappings=(mapping(),), max_retry_attempts=1))
    cluster.ask()
    cluster.karpenter_claims("Launched")
    cluster.settle()
    cluster.drop(NodeClaim, ObjectKey("", "gpu-h100-abc"))
    cluster.turn()
    assert failure_of(cluster).reason is FailureReason.NODE_CLAIM_LOST


def test_09_a_node_that_is_never_initialised_ends_the_request_and_stays() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.karpenter_claims("Launched", "Registered")
    claim = cluster.facts[NodeClaim, ObjectKey("", "gpu-h100-abc")]
    said = ObservedCondition(Tristate.UNKNOWN, "ResourceNotRegistered", 'Resource "nvidia.com/gpu" was not registered')
    cluster.put(
        ObjectKey("", claim.name), msgspec.structs.replace(claim, conditions=claim.conditions | {"Initialized": said})
    )
    cluster.settle()
    cluster.turn(seconds=601.0)
    assert failure_of(cluster).reason is FailureReason.INITIALIZATION_TIMEOUT
    assert "ResourceNotRegistered" in failure_of(cluster).message
    assert (NodeClaim, ObjectKey("", "gpu-h100-abc")) in cluster.facts
