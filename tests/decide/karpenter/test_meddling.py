"""Moments between two reconciles, and users, kubelets and controllers that do not do their part."""

from typing import Any

import msgspec
import pytest

from tests.decide.karpenter.cluster import Cluster, claim_pod
from ullage.decide.karpenter.retry import read_failure
from ullage.kube.objects.pod import KubePod
from ullage.kube.read.karpenter import read_smart_pod
from ullage.kube.timestamps import write_time
from ullage.model.fact_event import Deleted, ObjectKey
from ullage.model.intents import ClearHandover, CreateSmartPod, DeleteSmartPod, RecordFailure, ReserveNode
from ullage.model.karpenter import UNCLAIMED, HandoverNode, NodeClaim, SmartPod
from ullage.model.karpenter_failure import FailureReason, RecordedFailure
from ullage.model.outcomes import IntentFailed
from ullage.model.units import Instant

CLAIM = ObjectKey("", "gpu-h100-abc")


def _failure(cluster: Cluster, name: str = "a") -> RecordedFailure:
    found = read_failure(cluster.waiting(name).capacity_failure)
    assert found is not None, f"{name} says nothing"
    return found


def _asked(*names: str) -> Cluster:
    cluster = Cluster(*(claim_pod(name) for name in names or ("a",)))
    cluster.ask()
    return cluster


def _bound() -> Cluster:
    """The smart pod runs on its node, whose GPUs are not reported yet."""
    cluster = _asked()
    cluster.karpenter_claims("Launched", "Registered")
    cluster.settle()
    cluster.node_joins()
    cluster.smart_pod_binds()
    cluster.settle()
    return cluster


def _handed_over() -> Cluster:
    cluster = _bound()
    cluster.agent_reports()
    cluster.settle()
    assert not cluster.smart_pods
    assert cluster.node().closed_for == cluster.node().request
    return cluster


def _change(cluster: Cluster, **marks: Any) -> None:
    cluster.put(ObjectKey("", "n1"), msgspec.structs.replace(cluster.node(), **marks))


def _node_goes(cluster: Cluster) -> None:
    cluster.drop(HandoverNode, ObjectKey("", "n1"))
    cluster.snapshot.apply(Deleted(ObjectKey("", "n1"), cluster.snapshot.state.nodes["n1"]))


# NodeClaims that come and go between two reconciles.


def _comes_and_goes(cluster: Cluster, name: str, *, in_two_steps: bool = False) -> None:
    cluster.karpenter_claims(name=name)
    key = ObjectKey("", name)
    if in_two_steps:
        cluster.put(key, msgspec.structs.replace(cluster.facts[NodeClaim, key], deleting=True))
    cluster.drop(NodeClaim, key)


@pytest.mark.parametrize("in_two_steps", [False, True], ids=["at-once", "deleting-then-gone"])
def test_each_claim_that_comes_and_goes_between_two_reconciles_is_an_attempt(in_two_steps: bool) -> None:
    cluster = _asked()
    for number in (1, 2):
        _comes_and_goes(cluster, f"claim-{number}", in_two_steps=in_two_steps)
    cluster.settle()
    assert cluster.smart_pod.attempts == 2
    cluster.settle()
    assert cluster.smart_pod.attempts == 2, "counted once"
    _comes_and_goes(cluster, "claim-3", in_two_steps=in_two_steps)
    cluster.turn()
    assert (_failure(cluster).reason, _failure(cluster).attempts) == (FailureReason.INSUFFICIENT_CAPACITY, 3)


def test_a_claim_that_goes_while_its_name_is_being_written_is_one_attempt() -> None:
    cluster = _asked()
    cluster.karpenter_claims()
    (record,) = cluster.decide()
    cluster.drop(NodeClaim, CLAIM)
    cluster.perform(record)
    cluster.settle()
    assert cluster.smart_pod.attempts == 1


def test_a_claim_that_goes_beside_the_one_that_is_named_is_an_attempt_and_time_starts_anew() -> None:
    cluster = _asked()
    cluster.karpenter_claims()
    cluster.settle()
    cluster.drop(NodeClaim, CLAIM)
    _comes_and_goes(cluster, "second")
    cluster.now += 100.0
    cluster.settle()
    assert cluster.smart_pod.attempts == 2
    assert cluster.smart_pod.state_since == cluster.now


def test_a_write_that_failed_counts_nothing_twice() -> None:
    cluster = _asked()
    _comes_and_goes(cluster, "one")
    (record,) = cluster.decide()
    cluster.core.settle(IntentFailed(record, "down"), now=Instant(cluster.now))
    cluster.now += 5.0
    cluster.settle()
    assert cluster.smart_pod.attempts == 1


def test_a_claim_of_a_request_that_has_its_node_is_no_attempt() -> None:
    cluster = _bound()
    _comes_and_goes(cluster, "second")
    cluster.settle()
    assert cluster.smart_pod.attempts == 0


# Failures on pods.


def test_a_failure_goes_once_the_pod_has_a_node() -> None:
    cluster = Cluster(claim_pod("a", 9))
    cluster.ask()
    assert _failure(cluster).reason is FailureReason.LARGER_THAN_ANY_NODE
    assert cluster.turn(seconds=60.0) == (), "it stays while the pod waits"
    cluster.bind("a", "elsewhere")
    cluster.settle()
    assert cluster.waiting("a").capacity_failure == ""
    written = [one.failure is None for one in cluster.performed if isinstance(one, RecordFailure)]
    assert written == [False, True]


def test_a_gang_is_asked_for_again_when_its_failed_member_is() -> None:
    cluster = Cluster(*(claim_pod(name, 8, gangRef="g", gangMinMember=2) for name in ("a", "b")))
    cluster.ask()
    cluster.now += cluster.policy.deadlines[next(iter(cluster.policy.deadlines))]
    one, other = cluster.smart_pods
    cluster.put(other.key, msgspec.structs.replace(other, state_since=Instant(cluster.now)))
    cluster.settle()
    told = {_failure(cluster, name).reason: _failure(cluster, name).retry_at for name in ("a", "b")}
    assert set(told) == {FailureReason.PENDING_TIMEOUT, FailureReason.GANG_MEMBER_FAILED}
    assert len(set(told.values())) == 1, "all at the same time"
    cluster.now = max(told.values())
    cluster.ask()
    assert len(cluster.smart_pods) == 2
    assert {pod.key for pod in cluster.smart_pods} == {one.key, other.key}


# Hand-overs that a user meddles with.


@pytest.mark.parametrize("value", [None, UNCLAIMED, "mine"], ids=["removed", "unclaimed", "another-value"])
def test_a_taint_that_a_user_takes_away_comes_back_and_nothing_else_is_bought(value: str | None) -> None:
    cluster = _handed_over()
    request = cluster.node().request
    _change(cluster, closed_for=value)
    cluster.settle()
    assert cluster.node().closed_for == request
    assert not cluster.smart_pods
    cluster.bind("a", "n1", (0,))
    cluster.settle()
    assert cluster.node().closed_for is None


def test_a_closed_node_that_loses_its_label_is_opened() -> None:
    """Nodes are observed by the label of their request: without it the node is not to stay closed for ever."""
    cluster = _handed_over()
    node = cluster.node()
    cluster.drop(HandoverNode, ObjectKey("", "n1"))
    (clear,) = [one for one in cluster.turn() if isinstance(one, ClearHandover)]
    assert (clear.node, clear.uid, clear.drop_do_not_disrupt) == ("n1", node.uid, True)
    assert not [one for one in cluster.turn(seconds=5.0) if isinstance(one, ClearHandover)], "once"


# Kubelets and kube-controller-manager that do not do their part.


def _terminating(cluster: Cluster, *, ahead: float = 0.0) -> SmartPod:
    """The smart pod, deleted a moment ago with one second of grace, as the API server's clock stamps it."""
    stamp = write_time(Instant(cluster.now + ahead + 1.0))
    meta = {"name": "any", "deletionTimestamp": stamp, "deletionGracePeriodSeconds": 1}
    read = read_smart_pod(msgspec.convert({"metadata": meta}, KubePod))
    known = cluster.smart_pod
    return msgspec.structs.replace(
        read, key=known.key, uid=known.uid, request=known.request, original=known.original, node=known.node
    )


@pytest.mark.parametrize("ahead", [0.0, 3600.0, -3600.0], ids=["same clock", "an hour ahead", "an hour behind"])
def test_a_smart_pod_that_its_kubelet_does_not_end_is_deleted_without_it(ahead: float) -> None:
    """The API server's clock says nothing about how long we have waited."""
    cluster = _bound()
    going, began = _terminating(cluster, ahead=ahead), cluster.now
    cluster.put(going.key, going)
    assert not [one for one in cluster.turn(seconds=30.0) if isinstance(one, DeleteSmartPod)]
    assert cluster.core.next_deadline() == began + 1.0 + 60.0
    (again,) = [one for one in cluster.turn(seconds=31.0) if isinstance(one, DeleteSmartPod)]
    assert (again.uid, again.grace_seconds, again.again) == (going.uid, 0, True)


def test_a_clock_that_is_set_back_does_not_prolong_the_wait_for_a_kubelet() -> None:
    cluster = _bound()
    going = _terminating(cluster)
    cluster.put(going.key, going)
    cluster.now -= 3600.0
    assert not [one for one in cluster.turn(seconds=30.0) if isinstance(one, DeleteSmartPod)]
    assert [one for one in cluster.turn(seconds=62.0) if isinstance(one, DeleteSmartPod)]


@pytest.mark.parametrize("how", ["gone", "going"])
def test_a_smart_pod_whose_node_was_removed_is_asked_for_again(how: str) -> None:
    """Nobody has collected the pod yet: kube-controller-manager lags."""
    cluster = _bound()
    if how == "gone":
        cluster.drop(NodeClaim, CLAIM)
        _node_goes(cluster)
    else:
        _change(cluster, deleting=True)
    cluster.settle()
    assert _failure(cluster).reason is FailureReason.SMART_POD_EVICTED
    (deleted,) = [one for one in cluster.performed if isinstance(one, DeleteSmartPod)]
    assert deleted.grace_seconds == (0 if how == "gone" else 1), "nobody is there to end a container on a gone node"
    cluster.now = _failure(cluster).retry_at
    cluster.ask()
    assert len([one for one in cluster.performed if isinstance(one, CreateSmartPod)]) == 2


def test_a_smart_pod_bound_to_a_node_that_was_not_observed_yet_is_waited_for() -> None:
    cluster = _asked()
    cluster.karpenter_claims("Launched", "Registered")
    cluster.settle()
    cluster.put(cluster.smart_pod.key, msgspec.structs.replace(cluster.smart_pod, node="n1"))
    cluster.settle()
    assert cluster.smart_pods
    assert not [one for one in cluster.performed if isinstance(one, ReserveNode | DeleteSmartPod)]


def test_a_member_whose_smart_pod_ends_in_its_hand_over_fails_nobody() -> None:
    """A pause container that is stopped shows Failed for a moment, before its pod is gone."""
    cluster = Cluster(*(claim_pod(name, 8, gangRef="g", gangMinMember=2) for name in ("a", "b")))
    cluster.ask()
    first = cluster.smart_pods[0]
    cluster.put(first.key, msgspec.structs.replace(first, deleting=True, over=True))
    cluster.settle()
    assert len(cluster.smart_pods) == 2
