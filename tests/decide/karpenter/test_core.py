"""Stories of one request from Requested to HandedOver, and a restart between any two steps."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from tests.decide.karpenter.cluster import Cluster, claim_pod
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.intents import (
    AdmitWaitingPod,
    ClearHandover,
    CreateSmartPod,
    DeleteSmartPod,
    RecordSmartPodState,
    ReserveNode,
)
from ullage.model.karpenter import UNCLAIMED, SmartPod
from ullage.model.lease import GpuLease
from ullage.model.lifecycles import IN_FLIGHT, SMART_POD
from ullage.model.lifecycles import SmartPodState as S
from ullage.model.outcomes import IntentDone
from ullage.model.units import Instant

ORDER = [CreateSmartPod, ReserveNode, DeleteSmartPod, AdmitWaitingPod, ClearHandover]
"""Of a whole life, states left out."""


def _life(cluster: Cluster) -> list[Callable[[], object]]:
    """Steps of the world outside, each after Ullage has done what it could."""

    def window() -> None:
        cluster.now += 1.0

    def registered() -> None:
        cluster.karpenter_claims("Launched", "Registered")
        cluster.node_joins(ready=False)

    def bound() -> None:
        cluster.node_joins()
        cluster.smart_pod_binds()

    return [
        cluster.decide,
        window,
        cluster.karpenter_claims,
        lambda: cluster.karpenter_claims("Launched"),
        registered,
        bound,
        cluster.agent_reports,
        lambda: cluster.bind("a", "n1", (0,)),
    ]


def _done(cluster: Cluster) -> list[type]:
    return [type(one) for one in cluster.performed if not isinstance(one, RecordSmartPodState)]


def test_a_request_is_served_in_one_order() -> None:
    cluster = Cluster(claim_pod("a"))
    for step in _life(cluster):
        step()
        cluster.settle()
    assert _done(cluster) == ORDER
    moves = [(one.start, one.end) for one in cluster.core.transitions.drain()]
    assert [end for _, end in moves] == [S.REQUESTED, *IN_FLIGHT, S.HANDED_OVER]
    assert all(move in SMART_POD.edges for move in moves[1:])
    assert not cluster.smart_pods
    assert cluster.node().closed_for is None
    assert not cluster.core.transitions.states()


@pytest.mark.parametrize("crash_after", range(1, 30))
def test_a_restart_after_any_intent_ends_in_the_same_way(crash_after: int) -> None:
    """Nothing is done twice and nothing is left out: the next start finds all of it on the objects."""
    cluster = Cluster(claim_pod("a"))
    for step in _life(cluster):
        step()
        for _ in range(10):
            before = len(cluster.performed)
            for intent in cluster.decide():
                cluster.perform(intent)
                if len(cluster.performed) == crash_after:
                    cluster.restart()
                    break
            cluster.now += 0.3  # a restart begins the batch window anew
            if len(cluster.performed) == before:
                break
    assert _done(cluster) == ORDER
    assert not cluster.smart_pods
    assert cluster.node().closed_for is None


def test_a_change_that_is_observed_before_its_answer_holds_nothing_up() -> None:
    """The watch is often faster than the answer to the write."""
    cluster = Cluster(claim_pod("a"))
    cluster.turn()
    cluster.now += 1.0
    (create,) = cluster.decide()
    assert isinstance(create, CreateSmartPod)
    cluster.observe_creation(create)
    cluster.core.settle(IntentDone(create), now=Instant(cluster.now))
    cluster.karpenter_claims()
    assert [type(one) for one in cluster.decide()] == [RecordSmartPodState], "at once, not after a pause"


def test_a_report_of_a_node_that_was_bought_wakes_the_loop() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.node_joins()
    cluster.agent_reports()
    inventory = cluster.snapshot.state.inventories["n1"]
    elsewhere = msgspec.structs.replace(inventory, node="elsewhere")
    assert cluster.core.apply(Added(ObjectKey("", "n1"), inventory), now=Instant(cluster.now))
    assert not cluster.core.apply(Added(ObjectKey("", "elsewhere"), elsewhere), now=Instant(cluster.now))


def test_the_smart_pod_stays_until_the_gpus_are_leased() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.karpenter_claims("Launched", "Registered")
    cluster.node_joins()
    cluster.smart_pod_binds()
    cluster.settle()
    assert cluster.state() is S.INITIALIZED
    assert cluster.node().closed_for == UNCLAIMED, "nobody else may come in before the GPUs are reported"
    cluster.agent_reports()
    (reserve,) = [one for one in cluster.decide() if isinstance(one, ReserveNode)]
    assert reserve.handover.request == cluster.smart_pod.request
    assert [one.devices for one in reserve.leases] == [(0,)]


@pytest.mark.parametrize("restart", [False, True], ids=["the watch is ahead", "a crash in the middle"])
def test_gpus_that_are_leased_already_do_not_hinder_the_lease_of_the_others(restart: bool) -> None:
    """Leases are taken one by one: those of the waiting pod itself are no other's."""
    cluster = Cluster(claim_pod("a", 8))
    cluster.ask()
    cluster.karpenter_claims("Launched", "Registered")
    cluster.node_joins()
    cluster.smart_pod_binds()
    cluster.settle()
    cluster.agent_reports()
    (reserve,) = [one for one in cluster.decide() if isinstance(one, ReserveNode)]
    (wanted,) = reserve.leases
    assert len(wanted.devices) == 8
    part = replace(reserve, leases=(replace(wanted, devices=wanted.devices[:3]),))
    cluster.written(part)
    for (kind, at), lease in list(cluster.facts.items()):
        if kind is GpuLease:
            cluster.snapshot.apply(Added(at, lease))
    if restart:
        cluster.restart()
        (again,) = [one for one in cluster.decide() if isinstance(one, ReserveNode)]
        assert again.leases == reserve.leases
    assert cluster.state() is S.INVENTORY_READY


def test_a_waiting_pod_is_admitted_only_when_the_smart_pod_is_gone() -> None:
    cluster = Cluster(claim_pod("a"))
    cluster.ask()
    cluster.karpenter_claims("Launched", "Registered")
    cluster.node_joins()
    cluster.smart_pod_binds()
    cluster.agent_reports()
    cluster.turn()  # the node is reserved
    (delete,) = [one for one in cluster.decide() if isinstance(one, DeleteSmartPod)]
    assert (delete.end, delete.grace_seconds) == (S.HANDED_OVER, 1)
    going = cluster.smart_pod
    cluster.put(
        going.key, SmartPod(**{name: getattr(going, name) for name in going.__struct_fields__} | {"deleting": True})
    )
    assert not [one for one in cluster.decide() if isinstance(one, AdmitWaitingPod | DeleteSmartPod)]
    cluster.drop(SmartPod, going.key)
    (admit,) = [one for one in cluster.decide() if isinstance(one, AdmitWaitingPod)]
    assert admit.pod.key == ObjectKey("team", "a")


def test_a_gang_is_reserved_when_all_nodes_are_ready() -> None:
    members = [claim_pod(name, 8, gangRef="g", gangMinMember=2) for name in ("a", "b")]
    cluster = Cluster(*members)
    cluster.ask()
    first, second = cluster.smart_pods
    for number, one in enumerate((first, second), start=1):
        cluster.karpenter_claims("Launched", "Registered", name=f"claim-{number}", of=one.request)
        cluster.node_joins(f"n{number}", of=one.request)
        cluster.smart_pod_binds(f"n{number}", smart=one)
    cluster.agent_reports("n1")
    cluster.settle()
    assert not [one for one in cluster.performed if isinstance(one, ReserveNode)], "half a gang is of no use"
    cluster.agent_reports("n2")
    cluster.settle()
    assert len([one for one in cluster.performed if isinstance(one, ReserveNode)]) == 2
