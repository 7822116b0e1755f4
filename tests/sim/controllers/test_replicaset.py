"""ReplicaSets: who is made, who goes, what is counted."""

import pytest

from tests.sim.controllers.things import at, merged, pod, replica_set, said, seconds
from ullage.sim.controllers.objects import ActorPod
from ullage.sim.controllers.podstate import DELETION_COST, in_order_of_deletion
from ullage.sim.controllers.replicaset import manage_replicas, replica_status
from ullage.sim.controllers.writes import CreateObject

NOW = at(1000)


@pytest.mark.parametrize(
    ("wanted", "pods", "expected"),
    [
        pytest.param(2, [], ["create pods"] * 2, id="none-yet"),
        pytest.param(None, [], ["create pods"], id="one-is-the-default"),
        pytest.param(1, [pod("a")], [], id="just-right"),
        pytest.param(0, [pod("a")], ["delete pods/a"], id="to-zero"),
        pytest.param(1, [pod("a", phase="Failed")], ["create pods"], id="a-failed-pod-does-not-count"),
        pytest.param(1, [pod("a", going=1)], ["create pods"], id="a-pod-that-is-going-does-not-count"),
        pytest.param(1, [pod("a", phase="Pending")], [], id="a-pending-pod-counts"),
        pytest.param(1, [pod("a"), pod("b", phase="Pending")], ["delete pods/b"], id="the-pending-one-goes"),
        pytest.param(501, [], ["create pods"] * 500, id="no-more-than-a-burst"),
    ],
)
def test_managing_replicas(wanted: int | None, pods: list[ActorPod], expected: list[str]) -> None:
    owner = replica_set(replicas=wanted)
    assert said(manage_replicas(owner, pods, pods, now=NOW)) == expected


def test_a_set_that_is_going_makes_no_pods() -> None:
    owner = replica_set(replicas=3, meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert manage_replicas(owner, [], [], now=NOW) == ()


def test_a_new_pod_follows_the_template_and_names_its_owner() -> None:
    (write,) = manage_replicas(replica_set(replicas=1), [], [], now=NOW)
    assert isinstance(write, CreateObject)
    assert write.body["metadata"]["generateName"] == "web-"
    assert write.body["metadata"]["labels"] == {"app": "web"}
    assert write.body["metadata"]["ownerReferences"][0]["uid"] == "uid-web"


CHEAP, DEAR = {DELETION_COST: "-5"}, {DELETION_COST: "5"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(pod("z", node="", phase="Pending"), pod("a", phase="Pending"), id="unassigned-first"),
        pytest.param(pod("z", phase="Pending"), pod("a", ready=False), id="pending-before-running"),
        pytest.param(pod("z", ready=False), pod("a"), id="not-ready-before-ready"),
        pytest.param(pod("z", annotations=CHEAP), pod("a", annotations=DEAR), id="cheap-before-dear"),
        pytest.param(pod("z", annotations=CHEAP), pod("a"), id="no-price-is-zero"),
        pytest.param(pod("z", ready_at=999), pod("a", ready_at=0), id="young-before-old"),
        pytest.param(pod("z", restarts=3), pod("a"), id="often-restarted-first"),
        pytest.param(pod("a", ready_at=100), pod("b", ready_at=0), id="ages-alike-go-by-uid"),
    ],
)
def test_who_is_missed_least(first: ActorPod, second: ActorPod) -> None:
    for pods in ([first, second], [second, first]):
        assert [each.metadata.name for each in in_order_of_deletion(pods, pods, NOW)] == [
            first.metadata.name,
            second.metadata.name,
        ]


def test_doubled_up_pods_go_before_lonely_ones() -> None:
    lonely, one, two = pod("a", node="node-b"), pod("b"), pod("c")
    ranked = in_order_of_deletion([lonely, one, two], [lonely, one, two], NOW)
    assert ranked[-1] is lonely


def test_the_counts() -> None:
    owner = replica_set(replicas=4, minReadySeconds=10)
    pods = [
        pod("old", ready_at=0),
        pod("young", ready_at=995),
        pod("starting", phase="Pending"),
        pod("relabelled", labels={"app": "other"}),
        pod("over", phase="Succeeded"),
    ]
    plan = replica_status(owner, pods, now=NOW)
    assert merged(plan, "web")["status"] == {
        "replicas": 4,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 2,
        "observedGeneration": 1,
    }
    assert seconds(plan.wake_at) == 1005


def test_a_status_that_is_true_is_not_written_again() -> None:
    counts = {"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    owner = replica_set(replicas=1, status={**counts, "observedGeneration": 1})
    assert said(replica_status(owner, [pod("a")], now=NOW)) == []


def test_a_failure_is_told_and_taken_back() -> None:
    plan = replica_status(replica_set(replicas=1), [], "quota is used up", now=NOW)
    (condition,) = merged(plan, "web")["status"]["conditions"]
    assert (condition["type"], condition["reason"], condition["message"]) == (
        "ReplicaFailure",
        "FailedCreate",
        "quota is used up",
    )
    failed = replica_set(replicas=0, status={"observedGeneration": 1, "conditions": [condition]})
    assert merged(replica_status(failed, [], now=NOW), "web")["status"]["conditions"] is None
