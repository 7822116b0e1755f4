"""Failure modes of smart pods by their number in docs/karpenter.md: requests. Modes of writing are tests of `act`."""

from typing import Any

import msgspec
import pytest

from tests.decide.karpenter.cluster import NOON, Cluster, claim_pod, node_pool
from tests.decide.karpenter.outcomes import created, ends_of, failure_of
from tests.decide.scenes import pod, quota
from ullage.decide.karpenter.smart_pod import LONGEST_REQUEST, label_value, pod_name
from ullage.kube.client.resource import JsonObject
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import (
    ORIGINAL_REQUEST,
    REQUEST_LABEL,
    NodeClaim,
    NodeClaimEventType,
    NodePool,
    ObservedCondition,
    SmartPod,
    Tristate,
)
from ullage.model.karpenter_failure import FailureReason
from ullage.model.lifecycles import SMART_POD
from ullage.model.lifecycles import SmartPodState as S
from ullage.model.outcomes import IntentFailed, IntentRejected
from ullage.model.provisioner import ZONE_LABEL
from ullage.model.resources import GPU
from ullage.model.units import Instant


def _in_zones(*zones: str) -> JsonObject:
    terms = [{"matchExpressions": [{"key": ZONE_LABEL, "operator": "In", "values": list(zones)}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([*claim_pod("a"), quota(gpus=0)], id="over quota"),
        pytest.param([pod("a", claim="nowhere", schedulerName="gpu-scheduler")], id="claim missing"),
        pytest.param([pod("a", 1, schedulerName="gpu-scheduler", schedulingGates=[{"name": "x"}])], id="gated"),
        pytest.param(
            [pod("a", 1, schedulerName="gpu-scheduler", nodeSelector={"kubernetes.io/hostname": "n7"})], id="pinned"
        ),
        pytest.param([pod("a", 1)], id="another scheduler's, not found unschedulable"),
        pytest.param([pod("a", schedulerName="gpu-scheduler")], id="asks for no GPU"),
    ],
)
def test_01_no_smart_pod_for_what_capacity_does_not_cure(objects: list[dict[str, object]]) -> None:
    cluster = Cluster(objects)
    cluster.ask()
    assert not cluster.smart_pods


@pytest.mark.parametrize("how", ["deleted", "bound elsewhere", "made again", "asks for more"])
def test_02_a_request_nobody_has_any_more_is_cancelled_and_its_claim_stays(how: str) -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.karpenter_claims("Launched")
    cluster.settle()
    one = cluster.waiting("a")
    match how:
        case "deleted":
            cluster.drop_pod(one.key)
        case "bound elsewhere":
            cluster.bind("a", "elsewhere")
        case "made again":
            cluster.put_pod(msgspec.structs.replace(one, uid="another"))
        case _:
            richer = msgspec.structs.replace(one.shape, requests=(("cpu", 64_000),))
            cluster.put_pod(msgspec.structs.replace(one, shape=richer))
    cluster.turn()
    assert ends_of(cluster) == [S.CANCELLED]
    assert (NodeClaim, ObjectKey("", "gpu-h100-abc")) in cluster.facts, "NodeClaims are never deleted"


def test_03_the_same_request_again_is_the_same_smart_pod() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    for _ in range(5):
        cluster.turn(seconds=1.0)
    assert len(created(cluster)) == 1
    again = Cluster(claim_pod("a"))
    again.ask()
    assert again.smart_pod.key == cluster.smart_pod.key, "names do not depend on time or order"


def test_04_shares_are_aggregated_to_whole_gpus() -> None:
    cluster = Cluster(*(claim_pod(f"s{n}", exclusivity="Shared", memory="20Gi") for n in range(6)))
    cluster.ask()
    groups = [len(one.original.pods) for one in cluster.smart_pods if one.original is not None]
    assert sorted(groups) == [2, 4], "6 quarters are two GPUs"
    assert {dict(one.requests)[GPU] for one in created(cluster)} == {1000}
    assert sorted(dict(one.requests)["cpu"] for one in created(cluster)) == [8000, 16000], "all of them must fit"


def test_05_a_storm_is_limited() -> None:
    cluster = Cluster(*(claim_pod(f"p{n:02}") for n in range(40)))
    assert not cluster.turn(), "the batch window collects"
    cluster.ask()
    assert len(cluster.smart_pods) == cluster.policy.max_in_flight == 15


def test_05_nothing_is_asked_of_a_node_pool_at_its_limits() -> None:
    limited = node_pool(limits={GPU: 10_000}, usage={GPU: 8_000})
    cluster = Cluster(*(claim_pod(f"p{n}") for n in range(4)), pools=[limited])
    cluster.ask()
    assert len(cluster.smart_pods) == 2
    assert failure_of(cluster, "p2").reason is FailureReason.NODE_POOL_LIMIT


def test_15_smart_pods_have_a_class_of_their_own() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    (create,) = created(cluster)
    assert create.priority_class == "ullage-smart-pod"


def test_18_a_smart_pod_without_a_readable_request_is_garbage() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.put(cluster.smart_pod.key, msgspec.structs.replace(cluster.smart_pod, original=None))
    cluster.turn()
    assert ends_of(cluster) == [S.CANCELLED]


def test_19_a_time_in_the_future_counts_as_now() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.put(cluster.smart_pod.key, msgspec.structs.replace(cluster.smart_pod, state_since=cluster.now + 9e9))
    cluster.decide()
    deadline = cluster.core.next_deadline()
    assert deadline is not None
    assert deadline <= cluster.now + 120.0


@pytest.mark.parametrize("model", ["NVIDIA A100-SXM4-80GB", "a b", "x" * 200, "", "Ünïcode GPU", "-"])
def test_20_any_model_makes_a_name(model: str) -> None:
    name = pod_name(model, "0123456789abcdef")
    assert len(name) <= 63
    assert name.startswith("smart-gpu-scheduler-")
    assert all(part and part.isascii() and part == part.lower() for part in name.split("-"))
    assert len(label_value(model)) <= 63


def test_20_long_models_that_differ_late_have_different_labels() -> None:
    assert label_value("x" * 200 + "1") != label_value("x" * 200 + "2")


def test_21_the_request_is_kept_within_bounds_and_without_secrets() -> None:
    shares = [claim_pod(f"a-rather-long-name-of-a-pod-{n:03}", exclusivity="Shared", memory="1Gi") for n in range(60)]
    cluster = Cluster(*shares)
    cluster.ask()
    (create,) = created(cluster)
    text = dict(create.annotations)[ORIGINAL_REQUEST]
    assert len(text) <= LONGEST_REQUEST
    assert "env" not in msgspec.json.decode(text)


def test_22_one_failed_member_ends_the_gang() -> None:
    members = [claim_pod(name, 8, gangRef="g", gangMinMember=3) for name in ("a", "b", "c")]
    cluster = Cluster(*members)
    cluster.ask()
    assert len(cluster.smart_pods) == 3, "sent together"
    one = cluster.smart_pods[1]
    cluster.put(one.key, msgspec.structs.replace(one, state_since=NOON - 1000.0))
    cluster.turn()
    assert not cluster.smart_pods
    reasons = sorted(failure_of(cluster, name).reason for name in ("a", "b", "c"))
    assert reasons.count(FailureReason.PENDING_TIMEOUT) >= 1


def test_22_a_gang_of_which_one_cannot_be_served_buys_nothing() -> None:
    members = [claim_pod("a", 8, gangRef="g", gangMinMember=2), claim_pod("b", 9, gangRef="g", gangMinMember=2)]
    cluster = Cluster(*members)
    cluster.ask()
    assert not created(cluster)
    assert failure_of(cluster, "b").reason is FailureReason.LARGER_THAN_ANY_NODE
    assert failure_of(cluster, "a").reason is FailureReason.GANG_MEMBER_FAILED


def test_22_a_gang_is_asked_for_again_when_the_member_that_failed_is_another_pod() -> None:
    gang: dict[str, Any] = {"gangRef": "g", "gangMinMember": 2}
    smaller = claim_pod("c", 8, **gang)
    cluster = Cluster(claim_pod("a", 8, **gang), claim_pod("b", 9, **gang), smaller[0])
    cluster.ask()
    cluster.turn(seconds=3600.0)
    assert not created(cluster), "the failure holds while its pod is there"
    cluster.drop_pod(cluster.waiting("b").key)
    cluster.ask()
    assert not created(cluster), "a gang that lacks a member buys nothing"
    cluster.put_pod(Cluster(smaller).waiting("c"))
    cluster.ask()
    assert len(created(cluster)) == 2


@pytest.mark.parametrize(
    ("pools", "reason"),
    [
        pytest.param([], FailureReason.NODE_POOL_NOT_FOUND, id="absent"),
        pytest.param(
            [msgspec.structs.replace(node_pool(), deleting=True)], FailureReason.NODE_POOL_NOT_READY, id="being deleted"
        ),
        pytest.param(
            [node_pool(ready=ObservedCondition(Tristate.FALSE, "NodeClassNotReady", "missing"))],
            FailureReason.NODE_POOL_NOT_READY,
            id="not Ready",
        ),
        pytest.param([node_pool(requirements=())], FailureReason.NO_REQUEST_KEY, id="without the request key"),
    ],
)
def test_23_a_node_pool_that_cannot_serve_fails_at_once(pools: list[NodePool], reason: FailureReason) -> None:
    cluster = Cluster(claim_pod("a"), pools=pools)
    cluster.ask()
    assert not created(cluster)
    assert failure_of(cluster).reason is reason
    cluster.put(ObjectKey("", "gpu-h100"), msgspec.structs.replace(node_pool(), generation=2))
    cluster.ask()
    assert len(created(cluster)) == 1, "tried again as soon as it can serve"


def test_24_a_node_that_arrives_late_is_opened_and_taken_by_the_next() -> None:
    cluster = Cluster(claim_pod("a"), claim_pod("b", 4))
    cluster.drop_pod(ObjectKey("team", "b"))
    cluster.ask()
    request = cluster.smart_pod.request
    cluster.karpenter_claims("Launched", of=request)
    cluster.settle()
    cluster.drop_pod(ObjectKey("team", "a"))
    cluster.settle()
    second = Cluster(claim_pod("b", 4))
    cluster.put_pod(second.waiting("b"))
    cluster.ask()
    assert len(created(cluster)) == 1, "b waits for the node that is coming already"
    assert cluster.core.waiting_for == {ObjectKey("team", "b"): "gpu-h100-abc"}
    cluster.node_joins(of=request)
    cluster.agent_reports()
    cluster.settle()
    assert cluster.node().closed_for is None
    cluster.ask()
    assert len(created(cluster)) == 1, "b fits on the open node"


@pytest.mark.parametrize(
    ("zones", "asked", "waits"),
    [
        pytest.param((), {}, True, id="the same again"),
        pytest.param((), {"requests": {"cpu": "8", "memory": "16Gi"}}, False, id="more CPU"),
        pytest.param((), {"requests": {"cpu": "4", "memory": "32Gi"}}, False, id="more memory"),
        pytest.param((), {"requests": {"cpu": "2", "memory": "8Gi"}}, True, id="less"),
        pytest.param(("z1",), {"nodeSelector": {ZONE_LABEL: "z1"}}, True, id="its zone"),
        pytest.param(("z1",), {"nodeSelector": {ZONE_LABEL: "z2"}}, False, id="another zone"),
        pytest.param(("z1", "z2"), {"nodeSelector": {ZONE_LABEL: "z2"}}, False, id="a zone that it may come to"),
        pytest.param((), {"nodeSelector": {ZONE_LABEL: "z2"}}, False, id="any zone is coming, one is asked"),
        pytest.param(("z1",), {}, True, id="any zone will do"),
        pytest.param(("z1",), {"affinity": _in_zones("z1", "z2")}, True, id="affinity to its zone"),
        pytest.param(("z1", "z3"), {"affinity": _in_zones("z1", "z2")}, False, id="affinity to some of its zones"),
    ],
)
def test_24_a_node_that_comes_late_is_waited_for_only_if_it_will_do(
    zones: tuple[str, ...], asked: dict[str, Any], waits: bool
) -> None:
    cluster = Cluster(claim_pod("a"), claim_pod("b", pod=asked))
    late = cluster.waiting("b")
    cluster.drop_pod(late.key)
    cluster.ask()
    cluster.karpenter_claims("Launched", zones=zones)
    cluster.settle()
    cluster.drop_pod(ObjectKey("team", "a"))
    cluster.settle()
    cluster.put_pod(late)
    cluster.ask()
    assert (late.key in cluster.core.waiting_for) is waits
    assert len(created(cluster)) == (1 if waits else 2)


def test_27_nothing_changes_before_success() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.turn()
    cluster.now += 1.0
    (create,) = cluster.decide()
    assert cluster.core.settle(IntentFailed(create, "503"), now=Instant(cluster.now)) == 1
    assert not cluster.decide(), "not at once"
    assert cluster.core.next_deadline() == pytest.approx(cluster.now + 1.0)
    cluster.now += 1.0
    assert cluster.decide() == (create,), "the same again"
    assert cluster.core.settle(IntentFailed(create, "503"), now=Instant(cluster.now)) == 2
    assert cluster.core.next_deadline() is None or not cluster.decide()


def test_27_a_smart_pod_the_server_refuses_is_told_to_the_owner() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.turn()
    cluster.now += 1.0
    (create,) = cluster.decide()
    cluster.core.settle(IntentRejected(create, "quota of the namespace"), now=Instant(cluster.now))
    cluster.turn()
    assert failure_of(cluster).reason is FailureReason.REJECTED
    assert "quota" in failure_of(cluster).message
    cluster.turn(seconds=cluster.policy.first_backoff)
    assert cluster.smart_pods, "the API server may take it by now: nobody tells when a quota or a PriorityClass changes"


def test_30_no_two_smart_pods_share_an_id() -> None:
    cluster = Cluster(*(claim_pod(f"p{n}") for n in range(10)))
    cluster.ask()
    ids = [one.request for one in cluster.smart_pods]
    assert len(set(ids)) == 10
    assert all(dict(one.node_selector)[REQUEST_LABEL] == one.request for one in created(cluster))


def test_a_claim_tells_five_events() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    for shown in ((), ("Launched",), ("Launched", "Registered"), ("Launched", "Registered", "Ready")):
        cluster.now += 1.0
        cluster.karpenter_claims(*shown)
    cluster.karpenter_claims(name="second")
    cluster.drop(NodeClaim, ObjectKey("", "second"))
    told = [(one.type, one.node_claim) for one in cluster.core.claim_events]
    kinds = NodeClaimEventType
    assert told == [
        (kinds.CREATED, "gpu-h100-abc"),
        (kinds.LAUNCHING, "gpu-h100-abc"),
        (kinds.REGISTERING, "gpu-h100-abc"),
        (kinds.READY, "gpu-h100-abc"),
        (kinds.CREATED, "second"),
        (kinds.FAILED, "second"),
    ]


def test_every_state_has_a_way_out() -> None:
    for state in SMART_POD.states:
        assert state is S.HANDED_OVER or SMART_POD.leads_to(state), state
    assert set(SMART_POD.states) == set(S)


def test_nothing_is_left_of_a_smart_pod_somebody_else_deleted() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    key = cluster.smart_pod.key
    cluster.drop(SmartPod, key)
    cluster.settle()
    cluster.ask()
    assert cluster.smart_pod.key == key, "it is made again under its name"
