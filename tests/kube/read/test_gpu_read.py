"""Our own kinds read as facts, with the same judgement as the API server's."""

from typing import Any

import msgspec
import pytest

from tests.kube.crds.bad_objects import CLAIMS, NODES, QUOTAS, Bad
from ullage.errors import Unreadable
from ullage.kube.client.resources import GPU_CLAIMS, GPU_NODE_STATUSES, GPU_QUOTAS
from ullage.kube.objects.gpu import GpuClaim, GpuNodeStatus, GpuQuota
from ullage.kube.read.gpu import read_claim, read_inventory, read_quota
from ullage.model.claim import Claim, ClaimPhase, DevicePolicy, DeviceRequest, Exclusivity, TopologyMode
from ullage.model.device import Device, DeviceHealth, GpuNodeKind, Inventory, MigInstance
from ullage.model.fact_event import ObjectKey
from ullage.model.quota import Quota, QuotaLimits
from ullage.model.units import Bytes, Instant

READERS: dict[str, Any] = {
    GPU_CLAIMS.id: lambda body: read_claim(msgspec.convert(body, GpuClaim)),
    GPU_NODE_STATUSES.id: lambda body: read_inventory(msgspec.convert(body, GpuNodeStatus)),
    GPU_QUOTAS.id: lambda body: read_quota(msgspec.convert(body, GpuQuota)),
}


def a_claim(spec: dict[str, Any], status: dict[str, Any] | None = None) -> GpuClaim:
    meta = {"name": "c", "namespace": "n", "uid": "u", "generation": 3}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status or {}}, GpuClaim)


@pytest.mark.parametrize("bad", [*CLAIMS, *QUOTAS, *NODES])
def test_what_the_api_server_refuses_is_unreadable_and_the_field_is_named(bad: Bad) -> None:
    with pytest.raises((Unreadable, msgspec.ValidationError)) as caught:
        READERS[bad.resource.id](bad.body("x"))
    assert bad.field.partition("[")[0] in str(caught.value)


def test_a_claim_that_says_nothing_asks_for_one_whole_gpu() -> None:
    assert read_claim(a_claim({})) == Claim(
        key=ObjectKey("n", "c"), uid="u", generation=3, ask=DeviceRequest(), phase=ClaimPhase.PENDING
    )


def test_everything_a_claim_can_say() -> None:
    raw = a_claim(
        {
            "devices": {
                "count": 2,
                "policy": "preferIds",
                "preferIds": [3, 1],
                "exclusivity": "Shared",
                "model": "H100",
                "memory": "1.5Gi",
                "tflops": 7,
            },
            "selector": {"matchLabels": {"zone": "b", "arch": "a"}},
            "topology": {"mode": "Required", "minBandwidthGBps": 300},
            "gangRef": "g",
            "gangMinMember": 4,
            "pool": "p",
        },
        {"phase": "Bound", "nodeName": "node-a", "gpuIds": [1, 3]},
    )
    assert read_claim(raw) == Claim(
        key=ObjectKey("n", "c"),
        uid="u",
        generation=3,
        ask=DeviceRequest(
            count=2,
            policy=DevicePolicy.PREFER_IDS,
            prefer_ids=(1, 3),
            exclusivity=Exclusivity.SHARED,
            model="H100",
            memory=Bytes(3 << 29),
            tflops=7,
            topology=TopologyMode.REQUIRED,
            min_bandwidth=300,
        ),
        node_labels=(("arch", "a"), ("zone", "b")),
        gang="g",
        gang_min_member=4,
        pool="p",
        phase=ClaimPhase.BOUND,
        node="node-a",
        gpu_ids=(1, 3),
        opaque=True,
    )


def test_all_that_is_wrong_is_said_at_once() -> None:
    spec = {"devices": {"count": 0, "exclusivity": "MIG"}, "pool": "A"}
    with pytest.raises(
        Unreadable, match=r"GpuClaim n/c: spec\.devices\.count: .*; spec\.devices\.memory: .*; spec\.pool:"
    ):
        read_claim(a_claim(spec))


def test_a_phase_of_another_version_is_unreadable() -> None:
    with pytest.raises(Unreadable, match=r"GpuClaim n/c: status\.phase: 'Released'"):
        read_claim(a_claim({}, {"phase": "Released"}))


def test_memory_is_never_read_as_less_than_was_asked_for() -> None:
    assert read_claim(a_claim({"devices": {"memory": "0.3Ki"}})).ask.memory == 308
    assert read_claim(a_claim({"devices": {"memory": 80}})).ask.memory == 80


def a_node(**status: Any) -> GpuNodeStatus:
    body = {"metadata": {"name": "node-a"}, "spec": {"nodeName": "node-a"}, "status": status}
    return msgspec.convert(body, GpuNodeStatus)


def a_device(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "uuid": f"GPU-{number}", "model": "H100", "memory": "80Gi", "health": "Healthy"} | more


def test_an_inventory_is_sorted_by_id() -> None:
    mig = [{"uuid": "MIG-1", "profile": "1g.10gb", "memory": "10Gi"}]
    raw = a_node(
        observedAt="1970-01-01T00:01:00Z",
        kind="Counted",
        devices=[
            a_device(1, health="Unhealthy", mig=mig),
            a_device(0, island="i", bandwidthGBps=900, peers=[2, 1], inUseBy=["u"]),
        ],
    )
    first = Device(
        id=0,
        uuid="GPU-0",
        model="H100",
        memory=Bytes(80 << 30),
        island="i",
        bandwidth=900,
        peers=(1, 2),
        in_use_by=("u",),
    )
    instance = MigInstance("MIG-1", "1g.10gb", Bytes(10 << 30))
    second = Device(
        id=1, uuid="GPU-1", model="H100", memory=Bytes(80 << 30), health=DeviceHealth.UNHEALTHY, mig=(instance,)
    )
    assert read_inventory(raw) == Inventory(
        node="node-a", reported_at=Instant(60.0), dated=Instant(60.0), devices=(first, second), kind=GpuNodeKind.COUNTED
    )


def test_a_node_whose_agent_has_not_looked_yet_is_as_old_as_can_be() -> None:
    assert read_inventory(a_node()) == Inventory(node="node-a", reported_at=Instant(0.0), devices=())


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param({"devices": [a_device(16)]}, "id 16 is not between 0 and 15", id="id-beyond-the-masks"),
        pytest.param({"devices": [a_device(1), a_device(1)]}, "two GPUs have the same id", id="one-id-twice"),
        pytest.param(
            {"devices": [a_device(0, health="Ill")]}, "'Ill' is not a valid DeviceHealth", id="unknown-health"
        ),
        pytest.param({"devices": [a_device(0, memory="many")]}, "'many' is not a quantity", id="memory-in-words"),
        pytest.param({"observedAt": "today"}, "today", id="no-time"),
        pytest.param({"kind": "Rented"}, "'Rented' is not a valid GpuNodeKind", id="unknown-kind"),
    ],
)
def test_an_inventory_that_makes_no_sense_is_unreadable(status: dict[str, Any], words: str) -> None:
    with pytest.raises(Unreadable, match=words) as caught:
        read_inventory(a_node(**status))
    assert "GpuNodeStatus node-a" in caught.value.message


def test_a_quota_limits_only_what_it_names() -> None:
    body = {
        "metadata": {"name": "q", "namespace": "n", "uid": "u", "generation": 1},
        "spec": {"byModel": {"b": 0, "a": 2}},
    }
    limits = QuotaLimits(gpus=None, by_model=(("a", 2), ("b", 0)), shares=None)
    assert read_quota(msgspec.convert(body, GpuQuota)) == Quota(
        key=ObjectKey("n", "q"), uid="u", generation=1, limits=limits
    )
