"""Failure modes of smart pods by their number in docs/karpenter.md. Modes of writing are tests of `act`."""

import msgspec
import pytest

from tests.decide.karpenter.cluster import A100, NOON, Cluster, claim_pod, mapping, node_pool
from tests.decide.scenes import pod, quota
from ullage.decide.karpenter.handover import is_admitted
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.decide.karpenter.retry import read_failure
from ullage.decide.karpenter.smart_pod import LONGEST_REQUEST, label_value, pod_name
from ullage.model.fact_event import Deleted, ObjectKey
from ullage.model.intents import ClearHandover, CreateSmartPod, DeleteSmartPod, ReserveNode
from ullage.model.karpenter import (
    ORIGINAL_REQUEST,
    REQUEST_LABEL,
    UNCLAIMED,
    HandoverNode,
    NodeClaim,
    NodeClaimEventType,
    NodePool,
    ObservedCondition,
    SmartPod,
    Tristate,
)
from ullage.model.karpenter_failure import FailureReason, RecordedFailure
from ullage.model.lifecycles import SMART_POD
from ullage.model.lifecycles import SmartPodState as S
from ullage.model.outcomes import IntentFailed, IntentRejected
from ullage.model.resources import GPU
from ullage.model.units import Instant


def _failure(cluster: Cluster, name: str = "a") -> RecordedFailure:
    found = read_failure(cluster.waiting(name).capacity_failure)
    assert found is not None, f"{name} says nothing"
    return found


def _deleted(cluster: Cluster) -> list[S]:
    return [one.end for one in cluster.performed if isinstance(one, DeleteSmartPod)]


def _created(cluster: Cluster) -> list[CreateSmartPod]:
    return [one for one in cluster.performed if isinstance(one, CreateSmartPod)]


def _ready(cluster: Cluster, gpus: int = 8) -> None:
    """The node is there, the smart pod on it, its GPUs not reported yet."""
    cluster.karpenter_claims("Launched", "Registered")
    cluster.node_joins(gpus=gpus)
    cluster.smart_pod_binds()


def _handed_over(cluster: Cluster) -> None:
    cluster.ask()
    _ready(cluster)
    cluster.agent_reports()
    cluster.settle()


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
    assert _deleted(cluster) == [S.CANCELLED]
    assert (NodeClaim, ObjectKey("", "gpu-h100-abc")) in cluster.facts, "NodeClaims are never deleted"


def test_03_the_same_request_again_is_the_same_smart_pod() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    for _ in range(5):
        cluster.turn(seconds=1.0)
    assert len(_created(cluster)) == 1
    again = Cluster(claim_pod("a"))
    again.ask()
    assert again.smart_pod.key == cluster.smart_pod.key, "names do not depend on time or order"


def test_04_shares_are_aggregated_to_whole_gpus() -> None:
    cluster = Cluster(*(claim_pod(f"s{n}", exclusivity="Shared", memory="20Gi") for n in range(6)))
    cluster.ask()
    groups = [len(one.original.pods) for one in cluster.smart_pods if one.original is not None]
    assert sorted(groups) == [2, 4], "6 quarters are two GPUs"
    assert {dict(one.requests)[GPU] for one in _created(cluster)} == {1000}
    assert sorted(dict(one.requests)["cpu"] for one in _created(cluster)) == [8000, 16000], "all of them must fit"


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
    assert _failure(cluster, "p2").reason is FailureReason.NODE_POOL_LIMIT


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
    assert _deleted(cluster) == [S.FAILED]
    assert _failure(cluster).reason is reason
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
    assert _failure(cluster).retry_at == cluster.now + pause


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
    assert _deleted(cluster) == [S.EXPIRED]
    assert _failure(cluster).reason is FailureReason.PENDING_TIMEOUT


def test_06_a_word_about_capacity_waits_for_the_deadline() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.karpenter_says("Failed to schedule pod, no instance type has the required offering")
    cluster.turn(seconds=60.0)
    assert cluster.smart_pods, "Karpenter tries other offerings by itself"
    cluster.turn(seconds=61.0)
    assert _failure(cluster).reason is FailureReason.NO_OFFERING


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
    assert _failure(cluster).reason is FailureReason.INSUFFICIENT_CAPACITY
    assert _failure(cluster).attempts == 3
    assert _failure(cluster).retry_at > cluster.now


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


def test_08_a_launched_claim_that_is_deleted_is_lost() -> None:
    cluster = Cluster(claim_pod("a"), policy=KarpenterPolicy(mappings=(mapping(),), max_retry_attempts=1))
    cluster.ask()
    cluster.karpenter_claims("Launched")
    cluster.settle()
    cluster.drop(NodeClaim, ObjectKey("", "gpu-h100-abc"))
    cluster.turn()
    assert _failure(cluster).reason is FailureReason.NODE_CLAIM_LOST


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
    assert _failure(cluster).reason is FailureReason.INITIALIZATION_TIMEOUT
    assert "ResourceNotRegistered" in _failure(cluster).message
    assert (NodeClaim, ObjectKey("", "gpu-h100-abc")) in cluster.facts


def test_10_no_hand_over_before_the_gpus_are_reported() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    _ready(cluster)
    cluster.settle()
    assert cluster.state() is S.INITIALIZED
    cluster.turn(seconds=301.0)
    assert _failure(cluster).reason is FailureReason.INVENTORY_TIMEOUT
    assert "has not reported" in _failure(cluster).message


def test_11_a_smart_pod_on_a_node_that_was_there_needs_no_claim() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.node_joins()
    cluster.smart_pod_binds()
    cluster.agent_reports()
    cluster.settle()
    assert _deleted(cluster) == [S.HANDED_OVER]
    assert not any(one.jump for one in cluster.core.transitions.drain())


def test_12_the_node_is_closed_and_leased_before_the_smart_pod_goes() -> None:
    cluster = Cluster(claim_pod("a"))
    _handed_over(cluster)
    kinds = [type(one) for one in cluster.performed]
    assert kinds.index(ReserveNode) < kinds.index(DeleteSmartPod)
    assert cluster.node().closed_for == cluster.node().request
    assert cluster.node().kept


def test_12_a_lost_race_is_a_new_attempt() -> None:
    cluster = Cluster(claim_pod("a"))
    _handed_over(cluster)
    cluster.turn(seconds=121.0)
    assert _failure(cluster).reason is FailureReason.HANDOVER_LOST
    assert cluster.node().closed_for is None
    # The node is open now, and the pod fits on it: nothing more is bought.
    cluster.now += 60.0
    cluster.agent_reports()
    cluster.ask()
    assert len(_created(cluster)) == 1


def test_13_a_terminating_smart_pod_is_waited_for() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.put(cluster.smart_pod.key, msgspec.structs.replace(cluster.smart_pod, deleting=True))
    cluster.drop_pod(ObjectKey("team", "a"))
    for _ in range(5):
        assert not cluster.turn(seconds=1.0), "deleted once, by somebody"


@pytest.mark.parametrize(("bound", "grace_period"), [(False, 0), (True, 1)])
def test_13_only_running_containers_get_grace(bound: bool, grace_period: int) -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    if bound:
        _ready(cluster)
    cluster.drop_pod(ObjectKey("team", "a"))
    (delete,) = [one for one in cluster.decide() if isinstance(one, DeleteSmartPod)]
    assert delete.grace_seconds == grace_period


@pytest.mark.parametrize("how", ["disrupted", "deleting"])
def test_14_a_node_that_is_being_removed_is_lost(how: str) -> None:
    cluster = Cluster(claim_pod("a"))
    _handed_over(cluster)
    cluster.put(ObjectKey("", "n1"), msgspec.structs.replace(cluster.node(), **{how: True}))
    cluster.turn()
    assert _failure(cluster).reason is FailureReason.HANDOVER_LOST


def test_14_a_node_its_owner_protects_stays_protected() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    _ready(cluster)
    cluster.put(ObjectKey("", "n1"), msgspec.structs.replace(cluster.node(), kept=True))
    cluster.agent_reports()
    cluster.settle()
    cluster.bind("a", "n1", (0,))
    (clear,) = [one for one in cluster.decide() if isinstance(one, ClearHandover)]
    assert not clear.drop_do_not_disrupt


def test_15_smart_pods_have_a_class_of_their_own() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    (create,) = _created(cluster)
    assert create.priority_class == "ullage-smart-pod"


def test_16_a_smart_pod_that_ended_is_removed_and_asked_for_again() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.put(cluster.smart_pod.key, msgspec.structs.replace(cluster.smart_pod, over=True))
    cluster.turn()
    assert _failure(cluster).reason is FailureReason.SMART_POD_EVICTED
    assert not cluster.smart_pods, "no terminal pod is left behind"
    cluster.now += 10.0
    cluster.ask()
    assert cluster.smart_pod.attempts == 1


def test_18_a_smart_pod_without_a_readable_request_is_garbage() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.put(cluster.smart_pod.key, msgspec.structs.replace(cluster.smart_pod, original=None))
    cluster.turn()
    assert _deleted(cluster) == [S.CANCELLED]


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
    (create,) = _created(cluster)
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
    reasons = sorted(_failure(cluster, name).reason for name in ("a", "b", "c"))
    assert reasons.count(FailureReason.PENDING_TIMEOUT) >= 1


def test_22_a_gang_of_which_one_cannot_be_served_buys_nothing() -> None:
    members = [claim_pod("a", 8, gangRef="g", gangMinMember=2), claim_pod("b", 9, gangRef="g", gangMinMember=2)]
    cluster = Cluster(*members)
    cluster.ask()
    assert not _created(cluster)
    assert _failure(cluster, "b").reason is FailureReason.LARGER_THAN_ANY_NODE
    assert _failure(cluster, "a").reason is FailureReason.GANG_MEMBER_FAILED


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
    assert not _created(cluster)
    assert _failure(cluster).reason is reason
    cluster.put(ObjectKey("", "gpu-h100"), msgspec.structs.replace(node_pool(), generation=2))
    cluster.ask()
    assert len(_created(cluster)) == 1, "tried again as soon as it can serve"


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
    assert len(_created(cluster)) == 1, "b waits for the node that is coming already"
    assert cluster.core.waiting_for == {ObjectKey("team", "b"): "gpu-h100-abc"}
    cluster.node_joins(of=request)
    cluster.agent_reports()
    cluster.settle()
    assert cluster.node().closed_for is None
    cluster.ask()
    assert len(_created(cluster)) == 1, "b fits on the open node"


def test_25_fewer_gpus_than_asked_are_not_handed_over() -> None:
    cluster = Cluster(claim_pod("a", 8))
    cluster.ask()
    _ready(cluster, gpus=8)
    cluster.agent_reports(gpus=4)
    cluster.settle()
    assert cluster.state() is S.INITIALIZED
    assert not [one for one in cluster.performed if isinstance(one, ReserveNode)]


def test_25_another_model_than_asked_is_not_handed_over() -> None:
    cluster = Cluster(claim_pod("a", model="H100"))
    cluster.ask()
    _ready(cluster)
    cluster.agent_reports(model=A100)
    cluster.settle()
    assert cluster.state() is S.INITIALIZED


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
    assert _failure(cluster).reason is FailureReason.REJECTED
    assert "quota" in _failure(cluster).message


def test_30_no_two_smart_pods_share_an_id() -> None:
    cluster = Cluster(*(claim_pod(f"p{n}") for n in range(10)))
    cluster.ask()
    ids = [one.request for one in cluster.smart_pods]
    assert len(set(ids)) == 10
    assert all(dict(one.node_selector)[REQUEST_LABEL] == one.request for one in _created(cluster))


@pytest.mark.parametrize("shown", [(), ("Launched",)])
def test_31_a_bound_smart_pod_is_a_valid_step_from_any_state(shown: tuple[str, ...]) -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.karpenter_claims(*shown)
    cluster.settle()
    cluster.node_joins()
    cluster.smart_pod_binds()
    cluster.agent_reports()
    cluster.settle()
    assert _deleted(cluster) == [S.HANDED_OVER]
    assert not any(one.jump for one in cluster.core.transitions.drain())


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


def test_an_admitted_pod_of_an_earlier_attempt_asks_for_the_same() -> None:
    cluster = Cluster(claim_pod("a"))
    _handed_over(cluster)
    request = cluster.node().request
    assert is_admitted(cluster.waiting("a"), request)
    cluster.drop(HandoverNode, ObjectKey("", "n1"))
    cluster.snapshot.apply(Deleted(ObjectKey("", "n1"), cluster.snapshot.state.nodes["n1"]))
    cluster.settle()
    assert _failure(cluster).reason is FailureReason.HANDOVER_LOST, "a node that vanishes is lost, too"
    assert _failure(cluster).attempts == 1, "counted once"
    cluster.now += 10.0
    cluster.ask()
    assert cluster.smart_pod.request == request
    cluster.settle()
    assert cluster.smart_pods, "its own toleration does not make it another request"


def test_a_stranger_that_takes_over_the_taint_value_is_not_followed() -> None:
    """A user edits the taint: the hand-over is what the annotation says, and without one the node is opened."""
    cluster = Cluster(claim_pod("a"))
    _handed_over(cluster)
    cluster.put(ObjectKey("", "n1"), msgspec.structs.replace(cluster.node(), handover=None, closed_for="mine"))
    cluster.turn()
    assert cluster.node().closed_for is None


def test_nothing_is_left_of_a_smart_pod_somebody_else_deleted() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    key = cluster.smart_pod.key
    cluster.drop(SmartPod, key)
    cluster.settle()
    cluster.ask()
    assert cluster.smart_pod.key == key, "it is made again under its name"


def test_an_unclaimed_node_with_a_live_smart_pod_stays_closed() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.node_joins()
    cluster.settle()
    assert cluster.node().closed_for == UNCLAIMED
