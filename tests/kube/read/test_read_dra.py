"""ResourceClaims as kube-scheduler leaves them, read into what they hold."""

from typing import Any

import msgspec
import pytest

from ullage.kube.objects.dra import KubeResourceClaim, KubeResourceSlice
from ullage.kube.read import read_device_claim, read_device_slice
from ullage.model.dra import AllocatedDevice


def result(device: str, *, pool: str = "node-a", driver: str = "gpu.nvidia.com", **more: Any) -> dict[str, Any]:
    return {"request": "gpu", "driver": driver, "pool": pool, "device": device, **more}


def selecting(*names: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": list(names)}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


@pytest.mark.parametrize(
    ("status", "held"),
    [
        pytest.param({}, [], id="not-allocated"),
        pytest.param(
            {"allocation": {"devices": {"results": [result("gpu-1"), result("gpu-0")]}}},
            [("node-a", "node-a", "gpu-0"), ("node-a", "node-a", "gpu-1")],
            id="two-gpus",
        ),
        pytest.param(
            {
                "allocation": {
                    "devices": {"results": [result("gpu-1", pool="p-1")]},
                    "nodeSelector": selecting("node-b"),
                }
            },
            [("node-b", "p-1", "gpu-1")],
            id="the-selector-names-the-node",
        ),
        pytest.param(
            {"allocation": {"devices": {"results": [result("gpu-1")]}, "nodeSelector": selecting("x", "y")}},
            [("node-a", "node-a", "gpu-1")],
            id="a-selector-of-several-names-none",
        ),
        pytest.param(
            {"allocation": {"devices": {"results": [result("nic-0", driver="net.example.com")]}}}, [], id="other-driver"
        ),
        pytest.param(
            {"allocation": {"devices": {"results": [result("gpu-0", adminAccess=True)]}}}, [], id="only-watched-over"
        ),
        pytest.param({"allocation": {}}, [], id="allocated-nothing"),
    ],
)
def test_what_a_claim_holds(status: dict[str, Any], held: list[tuple[str, str, str]]) -> None:
    raw = {"metadata": {"name": "c", "namespace": "ns", "uid": "u"}, "spec": {"devices": {}}, "status": status}
    claim = read_device_claim(msgspec.convert(raw, KubeResourceClaim))
    assert claim.devices == tuple(AllocatedDevice(*one) for one in held)
    assert str(claim.key) == "ns/c"


@pytest.mark.parametrize(
    ("namespace", "labels", "holds"),
    [
        pytest.param("ullage-system", {"gpu.scheduling/reservation": "true"}, 0, id="ours-the-lease-says-it"),
        pytest.param("ullage-system", {}, 1, id="beside-the-leases-and-not-ours"),
        pytest.param("team", {"gpu.scheduling/reservation": "true"}, 1, id="labelled-by-somebody-else"),
    ],
)
def test_our_own_reservations_hold_nothing(namespace: str, labels: dict[str, str], holds: int) -> None:
    meta = {"name": "c", "namespace": namespace, "uid": "u", "labels": labels}
    raw = {"metadata": meta, "status": {"allocation": {"devices": {"results": [result("gpu-1")]}}}}
    assert len(read_device_claim(msgspec.convert(raw, KubeResourceClaim)).devices) == holds


def device(name: str, deeper: bool = False, **attributes: str) -> dict[str, Any]:
    spoken: dict[str, Any] = {key: {"string": value} for key, value in attributes.items()}
    said = {"attributes": spoken | {"migEnabled": {"bool": False}}}
    return {"name": name, **({"basic": said} if deeper else said)}


@pytest.mark.parametrize(
    ("devices", "gpus"),
    [
        pytest.param(
            [device("gpu-1", uuid="GPU-b"), device("gpu-0", uuid="GPU-a")],
            [("gpu-0", "GPU-a"), ("gpu-1", "GPU-b")],
            id="whole",
        ),
        pytest.param(
            [device("part", uuid="MIG-x", parentUUID="GPU-a")], [("part", "GPU-a")], id="a-part-is-of-its-parent"
        ),
        pytest.param([device("gpu-0", deeper=True, uuid="GPU-a")], [("gpu-0", "GPU-a")], id="v1beta1"),
        pytest.param(
            [{"name": "g", "attributes": {"gpu.nvidia.com/uuid": {"string": "GPU-a"}}}],
            [("g", "GPU-a")],
            id="qualified",
        ),
        pytest.param([device("mystery")], [], id="says-nothing"),
    ],
)
def test_which_gpu_a_device_is(devices: list[dict[str, Any]], gpus: list[tuple[str, str]]) -> None:
    spec = {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": {"name": "n"}, "devices": devices}
    found = read_device_slice(msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, KubeResourceSlice))
    assert (found.pool, found.gpus) == ("n", tuple(gpus))
    other = {**spec, "driver": "net.example.com"}
    assert read_device_slice(msgspec.convert({"metadata": {"name": "s"}, "spec": other}, KubeResourceSlice)).gpus == ()
