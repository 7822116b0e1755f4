"""Failure modes of docs/karpenter.md by their number: the node that came, its smart pod, and the hand-over."""

import msgspec
import pytest

from tests.decide.karpenter.cluster import A100, Cluster, claim_pod
from tests.decide.karpenter.outcomes import (
    created,
    failure_of,
    hand_over,
    node_is_there,
    serve_from_a_new_node,
)
from ullage.decide.karpenter.handover import is_admitted
from ullage.model.fact_event import Deleted, ObjectKey
from ullage.model.intents import ClearHandover, DeleteSmartPod, ReserveNode
from ullage.model.karpenter import (
    UNCLAIMED,
    HandoverNode,
)
from ullage.model.karpenter_failure import FailureReason
from ullage.model.lifecycles import SmartPodState as S


def test_10_no_hand_over_before_the_gpus_are_reported() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    node_is_there(cluster)
    cluster.settle()
    assert cluster.state() is S.INITIALIZED
    cluster.turn(seconds=301.0)
    assert failure_of(cluster).reason is FailureReason.INVENTORY_TIMEOUT
    assert "has not reported" in failure_of(cluster).message


def test_11_a_smart_pod_on_a_node_that_was_there_needs_no_claim() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    serve_from_a_new_node(cluster)


def test_12_the_node_is_closed_and_leased_before_the_smart_pod_goes() -> None:
    cluster = Cluster(claim_pod("a"))
    hand_over(cluster)
    kinds = [type(one) for one in cluster.performed]
    assert kinds.index(ReserveNode) < kinds.index(DeleteSmartPod)
    assert cluster.node().closed_for == cluster.node().request
    assert cluster.node().kept


def test_12_a_lost_race_is_a_new_attempt() -> None:
    cluster = Cluster(claim_pod("a"))
    hand_over(cluster)
    cluster.turn(seconds=121.0)
    assert failure_of(cluster).reason is FailureReason.HANDOVER_LOST
    assert cluster.node().closed_for is None
    # The node is open now, and the pod fits on it: nothing more is bought.
    cluster.now += 60.0
    cluster.agent_reports()
    cluster.ask()
    assert len(created(cluster)) == 1


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
        node_is_there(cluster)
    cluster.drop_pod(ObjectKey("team", "a"))
    (delete,) = [one for one in cluster.decide() if isinstance(one, DeleteSmartPod)]
    assert delete.grace_seconds == grace_period


@pytest.mark.parametrize("how", ["disrupted", "deleting"])
def test_14_a_node_that_is_being_removed_is_lost(how: str) -> None:
    cluster = Cluster(claim_pod("a"))
    hand_over(cluster)
    cluster.put(ObjectKey("", "n1"), msgspec.structs.replace(cluster.node(), **{how: True}))
    cluster.turn()
    assert failure_of(cluster).reason is FailureReason.HANDOVER_LOST


def test_14_a_node_its_owner_protects_stays_protected() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    node_is_there(cluster)
    cluster.put(ObjectKey("", "n1"), msgspec.structs.replace(cluster.node(), kept=True))
    cluster.agent_reports()
    cluster.settle()
    cluster.bind("a", "n1", (0,))
    (clear,) = [one for one in cluster.decide() if isinstance(one, ClearHandover)]
    assert not clear.drop_do_not_disrupt


def test_16_a_smart_pod_that_ended_is_removed_and_asked_for_again() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.put(cluster.smart_pod.key, msgspec.structs.replace(cluster.smart_pod, over=True))
    cluster.turn()
    assert failure_of(cluster).reason is FailureReason.SMART_POD_EVICTED
    assert not cluster.smart_pods, "no terminal pod is left behind"
    cluster.now += 10.0
    cluster.ask()
    assert cluster.smart_pod.attempts == 1


def test_25_fewer_gpus_than_asked_are_not_handed_over() -> None:
    cluster = Cluster(claim_pod("a", 8))
    cluster.ask()
    node_is_there(cluster, gpus=8)
    cluster.agent_reports(gpus=4)
    cluster.settle()
    assert cluster.state() is S.INITIALIZED
    assert not [one for one in cluster.performed if isinstance(one, ReserveNode)]


def test_25_another_model_than_asked_is_not_handed_over() -> None:
    cluster = Cluster(claim_pod("a", model="H100"))
    cluster.ask()
    node_is_there(cluster)
    cluster.agent_reports(model=A100)
    cluster.settle()
    assert cluster.state() is S.INITIALIZED


@pytest.mark.parametrize("shown", [(), ("Launched",)])
def test_31_a_bound_smart_pod_is_a_valid_step_from_any_state(shown: tuple[str, ...]) -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.karpenter_claims(*shown)
    cluster.settle()
    serve_from_a_new_node(cluster)


def test_an_admitted_pod_of_an_earlier_attempt_asks_for_the_same() -> None:
    cluster = Cluster(claim_pod("a"))
    hand_over(cluster)
    request = cluster.node().request
    assert is_admitted(cluster.waiting("a"), request)
    cluster.drop(HandoverNode, ObjectKey("", "n1"))
    cluster.snapshot.apply(Deleted(ObjectKey("", "n1"), cluster.snapshot.state.nodes["n1"]))
    cluster.settle()
    assert failure_of(cluster).reason is FailureReason.HANDOVER_LOST, "a node that vanishes is lost, too"
    assert failure_of(cluster).attempts == 1, "counted once"
    cluster.now += 10.0
    cluster.ask()
    assert cluster.smart_pod.request == request
    cluster.settle()
    assert cluster.smart_pods, "its own toleration does not make it another request"


def test_a_stranger_that_takes_over_the_taint_value_is_not_followed() -> None:
    """A user edits the taint: the hand-over is what the annotation says, and without one the node is opened."""
    cluster = Cluster(claim_pod("a"))
    hand_over(cluster)
    cluster.put(ObjectKey("", "n1"), msgspec.structs.replace(cluster.node(), handover=None, closed_for="mine"))
    cluster.turn()
    assert cluster.node().closed_for is None


def test_an_unclaimed_node_with_a_live_smart_pod_stays_closed() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.node_joins()
    cluster.settle()
    assert cluster.node().closed_for == UNCLAIMED


def test_nodes_that_the_rules_refuse_are_bought_a_few_times_and_not_for_ever() -> None:
    """Karpenter does not know the device that the pod asks for beside GPUs, and nodes come without it."""
    cluster = Cluster(claim_pod("a", pod={"requests": {"cpu": "4", "example.com/fpga": "1"}}))
    reasons = []
    for number in range(3):
        cluster.ask()
        name = f"n{number}"
        cluster.karpenter_claims("Launched", "Registered", name=f"claim-{number}")
        cluster.node_joins(name)
        cluster.smart_pod_binds(name)
        cluster.agent_reports(name)
        cluster.settle()
        cluster.now += 301.0
        cluster.agent_reports(name)
        cluster.settle()
        reasons.append(failure_of(cluster).reason)
        cluster.now += 300.0
    assert reasons == [*[FailureReason.INVENTORY_TIMEOUT] * 2, FailureReason.NODE_UNSUITABLE]
    assert "NodeTooSmall" in failure_of(cluster).message
    cluster.now += 3600.0
    cluster.ask()
    assert not cluster.smart_pods
