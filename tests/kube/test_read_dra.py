"""ResourceClaims as kube-scheduler leaves them, read into what they hold."""

from typing import Any

import msgspec
import pytest

from ullage.kube.objects.dra import ResourceClaim
from ullage.kube.read import read_device_claim
from ullage.model.device_claim import AllocatedDevice


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
            [("node-a", "gpu-0"), ("node-a", "gpu-1")],
            id="two-gpus",
        ),
        pytest.param(
            {
                "allocation": {
                    "devices": {"results": [result("gpu-1", pool="p-1")]},
                    "nodeSelector": selecting("node-b"),
                }
            },
            [("node-b", "gpu-1")],
            id="the-selector-names-the-node",
        ),
        pytest.param(
            {"allocation": {"devices": {"results": [result("gpu-1")]}, "nodeSelector": selecting("x", "y")}},
            [("node-a", "gpu-1")],
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
def test_what_a_claim_holds(status: dict[str, Any], held: list[tuple[str, str]]) -> None:
    raw = {"metadata": {"name": "c", "namespace": "ns", "uid": "u"}, "spec": {"devices": {}}, "status": status}
    claim = read_device_claim(msgspec.convert(raw, ResourceClaim))
    assert claim.devices == tuple(AllocatedDevice(*one) for one in held)
    assert str(claim.key) == "ns/c"
