"""Karpenter's objects as facts, and smart pods written and read back."""

from typing import Any

import msgspec
import pytest

from tests.decide.karpenter.cluster import Cluster, claim_pod
from ullage.errors import Unreadable
from ullage.kube.objects.karpenter import KubeEvent, KubeNodeClaim, KubeNodePool
from ullage.kube.objects.node import KubeNode
from ullage.kube.objects.pod import KubePod
from ullage.kube.read.karpenter import (
    read_handover_node,
    read_karpenter_event,
    read_node_claim,
    read_node_pool,
    read_smart_pod,
)
from ullage.kube.write.smart_pod import smart_pod, written_amount
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import CreateSmartPod
from ullage.model.karpenter import Handover, Regarding, Tristate, WaitingPod
from ullage.model.units import Instant

CLAIM: dict[str, Any] = {
    "metadata": {
        "name": "gpu-x7k2p",
        "uid": "u",
        "creationTimestamp": "2030-01-01T00:00:00Z",
        "labels": {"gpu.scheduling/request": "r1", "karpenter.sh/nodepool": "gpu"},
    },
    "spec": {"resources": {"requests": {"nvidia.com/gpu": "8", "cpu": "100m"}}},
    "status": {
        "nodeName": "n1",
        "conditions": [
            {"type": "Launched", "status": "True", "lastTransitionTime": "2030-01-01T00:00:01Z"},
            {"type": "Registered", "status": "Unknown", "reason": "NodeNotFound", "message": "soon"},
        ],
    },
}


def test_a_node_claim_is_read() -> None:
    claim = read_node_claim(msgspec.convert(CLAIM, KubeNodeClaim))
    assert (claim.request, claim.node_pool, claim.node) == ("r1", "gpu", "n1")
    assert claim.holds("Launched")
    assert claim.condition("Launched").since - claim.created == 1.0
    assert claim.condition("Registered").status is Tristate.UNKNOWN
    assert claim.condition("Registered").reason == "NodeNotFound"
    assert claim.requests == {"nvidia.com/gpu": 8000, "cpu": 100}
    assert not claim.deleting


def test_a_node_pool_is_read() -> None:
    body = {
        "metadata": {"name": "gpu", "uid": "u", "generation": 3},
        "spec": {
            "template": {
                "metadata": {"labels": {"tensor-fusion.ai/managed": "true"}},
                "spec": {
                    "requirements": [
                        {"key": "gpu.scheduling/request", "operator": "Exists"},
                        {"key": "cpus", "operator": "Gte", "values": ["3"]},
                    ],
                    "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
                    "startupTaints": [{"key": "gpu.scheduling/handover", "value": "unclaimed", "effect": "NoSchedule"}],
                },
            },
            "limits": {"nvidia.com/gpu": 16, "nodes": "2", "cpu": "0"},
        },
        "status": {
            "resources": {"nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "False", "reason": "NodeClassNotReady"}],
        },
    }
    pool = read_node_pool(msgspec.convert(body, KubeNodePool))
    assert pool.has_request_key
    assert pool.limits == {"nvidia.com/gpu": 16_000, "nodes": 2000, "cpu": 0}
    assert pool.usage == {"nvidia.com/gpu": 8000}
    assert pool.ready.status is Tristate.FALSE
    assert [taint.key for taint in (*pool.taints, *pool.startup_taints)] == [
        "nvidia.com/gpu",
        "gpu.scheduling/handover",
    ]


def test_a_limit_that_is_no_quantity_names_the_field() -> None:
    body = {"metadata": {"name": "gpu"}, "spec": {"limits": {"cpu": "many"}}}
    with pytest.raises(Unreadable, match=r"NodePool gpu: spec\.limits\.cpu"):
        read_node_pool(msgspec.convert(body, KubeNodePool))


def _created() -> CreateSmartPod:
    cluster = Cluster(claim_pod("a", 2, model="H100"))
    cluster.ask()
    (create,) = [one for one in cluster.performed if isinstance(one, CreateSmartPod)]
    return create


def test_a_smart_pod_is_written_as_asked_and_read_back() -> None:
    create = _created()
    body = smart_pod(create)
    spec = body["spec"]
    assert (spec["restartPolicy"], spec["schedulerName"], spec["activeDeadlineSeconds"]) == (
        "Never",
        "default-scheduler",
        600,
    )
    (container,) = spec["containers"]
    assert (container["name"], container["image"]) == ("gpu-trigger", "pause:3.9")
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["resources"]["requests"] == {"cpu": "4", "memory": "17179869184", "nvidia.com/gpu": "2"}
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in spec["tolerations"]
    read = read_smart_pod(msgspec.convert(body | {"status": {}}, KubePod))
    assert read.key == create.key
    assert (read.request, read.state, read.attempts, read.node) == (create.request, "Pending", 0, "")
    assert read.original is not None
    assert read.original.id == create.request
    assert read.original.pods == create.pods
    assert read.original.asks[0].model == "H100"


def test_what_anybody_wrote_on_a_smart_pod_breaks_nothing() -> None:
    body = smart_pod(_created())
    notes = body["metadata"]["annotations"]
    notes |= {"tensor-fusion.ai/attempts": "-1", "tensor-fusion.ai/state-since": "yesterday"}
    notes["tensor-fusion.ai/original-request"] = '{"id": 3}'
    read = read_smart_pod(msgspec.convert(body, KubePod))
    assert (read.attempts, read.state_since, read.original) == (0, 0.0, None)


def _node(**more: Any) -> KubeNode:
    body = {
        "metadata": {"name": "n1", "labels": {"gpu.scheduling/request": "r1"}} | more.pop("metadata", {}),
        "spec": {"taints": more.pop("taints", [])},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "4"}},
    }
    return msgspec.convert(body, KubeNode)


def test_the_marks_of_a_hand_over_are_read() -> None:
    handover = Handover(request="r1", pods=(WaitingPod(ObjectKey("team", "a"), "u"),), since=Instant(5.0))
    notes = {"gpu.scheduling/handover": msgspec.json.encode(handover).decode(), "karpenter.sh/do-not-disrupt": "true"}
    taint = {"key": "gpu.scheduling/handover", "value": "r1", "effect": "NoSchedule"}
    node = read_handover_node(_node(metadata={"annotations": notes, "labels": {}}, taints=[taint]))
    assert node.handover == handover
    assert (node.closed_for, node.kept, node.ready, node.gpus) == ("r1", True, True, 4)
    odd = read_handover_node(_node(metadata={"annotations": {"gpu.scheduling/handover": "{"}}))
    assert (odd.handover, odd.closed_for) == (None, None)


def test_a_node_on_its_way_out_is_going() -> None:
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    assert read_handover_node(_node(taints=[taint])).going
    assert read_handover_node(_node(metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"})).going


@pytest.mark.parametrize(
    ("times", "at"),
    [
        ({"eventTime": "2030-01-01T00:00:05.5Z"}, 5.5),
        ({"deprecatedLastTimestamp": "2030-01-01T00:00:07Z", "deprecatedFirstTimestamp": "2030-01-01T00:00:01Z"}, 7.0),
        ({"series": {"lastObservedTime": "2030-01-01T00:00:09Z"}, "eventTime": "2030-01-01T00:00:05Z"}, 9.0),
    ],
)
def test_an_event_of_any_writer_has_a_time(times: dict[str, Any], at: float) -> None:
    body = {
        "metadata": {"name": "e", "namespace": "x"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "x", "uid": "u"},
        "reason": "FailedScheduling",
        "note": "Failed to schedule pod, no instance type has enough resources",
    } | times
    event = read_karpenter_event(msgspec.convert(body, KubeEvent))
    assert (event.regarding, event.about_uid) == (Regarding.POD, "u")
    assert event.at - 1893456000.0 == at


def test_events_about_other_things_are_refused() -> None:
    with pytest.raises(Unreadable):
        read_karpenter_event(msgspec.convert({"regarding": {"kind": "Node"}}, KubeEvent))


@pytest.mark.parametrize(("milli", "text"), [(1000, "1"), (1500, "1500m"), (0, "0"), (8_589_934_592_000, "8589934592")])
def test_amounts_are_exact(milli: int, text: str) -> None:
    assert written_amount(milli) == text
