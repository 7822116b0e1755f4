"""`ullage explain` where Karpenter buys nodes: which NodeClaim is coming and when, or why none came."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.decide.karpenter.cluster import NOON
from tests.decide.scenes import claim, leased, pod
from ullage.cli.main import run
from ullage.kube.client.resource import JsonObject
from ullage.kube.timestamps import write_time
from ullage.model.claim import DeviceRequest
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import Handover, OriginalRequest, WaitingPod
from ullage.model.karpenter_failure import FailureReason, RecordedFailure
from ullage.model.units import Instant

SEEN = leased("seen", 1)
"""A small node whose report says what time it is: noon."""
WAITING = WaitingPod(ObjectKey("team", "p"), "uid-p")


def at(seconds: float) -> str:
    return write_time(Instant(NOON + seconds))


def node_claim(name: str, created: float, ready: float | None = None, request: str = "") -> JsonObject:
    """`created` and `ready` are seconds from noon."""
    conditions = [{"type": "Launched", "status": "True", "lastTransitionTime": at(created + 1)}]
    if ready is not None:
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": at(ready)})
    labels = {"karpenter.sh/nodepool": "gpu-h100"} | ({"gpu.scheduling/request": request} if request else {})
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "uid": name, "labels": labels, "creationTimestamp": at(created)},
        "spec": {},
        "status": {"conditions": conditions},
    }


def smart_pod(state: str, since: float) -> JsonObject:
    original = OriginalRequest(
        id="r1", mapping="h100", pods=(WAITING,), gpu_model="H100", gpu_count=8, asks=(DeviceRequest(count=8),)
    )
    body = pod("smart-gpu-scheduler-h100-r1", 8, namespace="tensor-fusion-system")
    body["metadata"] |= {
        "labels": {
            "tensor-fusion.ai/component": "smart-scheduler",
            "tensor-fusion.ai/state": state,
            "gpu.scheduling/request": "r1",
        },
        "annotations": {
            "tensor-fusion.ai/original-request": msgspec.json.encode(original).decode(),
            "tensor-fusion.ai/state-since": at(since),
        },
        "creationTimestamp": at(since),
    }
    return body


def failed(reason: FailureReason, message: str, retry: float) -> JsonObject:
    failure = RecordedFailure(
        reason=reason, message=message, attempts=2, retry_at=Instant(retry and NOON + retry), fingerprint="f"
    )
    return {"gpu.scheduling/capacity-failure": msgspec.json.encode(failure).decode()}


def closed_node() -> JsonObject:
    handover = Handover(request="r1", pods=(WAITING,), since=Instant(NOON - 2))
    meta = {
        "name": "n1",
        "labels": {"gpu.scheduling/request": "r1", "karpenter.sh/nodepool": "gpu-h100"},
        "annotations": {"gpu.scheduling/handover": msgspec.json.encode(handover).decode()},
    }
    taints = [{"key": "gpu.scheduling/handover", "value": "r1", "effect": "NoSchedule"}]
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": taints}, "status": {}}


def helped(folder: Path, capsys: pytest.CaptureFixture[str], *objects: Any, **annotations: str) -> list[str]:
    waiting = pod("p", claim="c")
    waiting["metadata"]["uid"] = WAITING.uid
    waiting["metadata"]["annotations"] |= annotations
    flat = [*SEEN, claim("c", 8), waiting, *objects]
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all(flat))
    assert run(["explain", "pod/team/p", "-f", str(folder), "-o", "json"]) == 0, capsys.readouterr().err
    steps: list[str] = json.loads(capsys.readouterr().out)["helps"]
    return [
        one for one in steps if "arpenter" in one or "NodeClaim" in one or "handed over" in one or "NodePool" in one
    ]


UNPROTECTED_POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "gpu-h100", "uid": "gpu-h100"},
    "spec": {},
    "status": {"conditions": [{"type": "HandoverUnprotected", "status": "True", "message": "nodes are open"}]},
}
EARLIER = [node_claim(f"gpu-h100-{n}", -3600.0, -3600.0 + seconds) for n, seconds in enumerate((50, 60, 70, 100))]


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        pytest.param([], [], id="nothing-was-asked"),
        pytest.param(
            [smart_pod("Pending", -3)],
            [
                "wait: Karpenter was asked for a node by smart pod tensor-fusion-system/smart-gpu-scheduler-h100-r1 "
                "(Pending for 3 s)"
            ],
            id="no-claim-yet",
        ),
        pytest.param(
            [smart_pod("Launched", -20), node_claim("gpu-h100-x", -30, request="r1")],
            [
                "wait: NodeClaim gpu-h100-x of NodePool gpu-h100 is coming for it (smart pod "
                "tensor-fusion-system/smart-gpu-scheduler-h100-r1, Launched for 20 s)",
                "when it comes is not known: no NodeClaim of NodePool gpu-h100 has become Ready yet",
            ],
            id="the-first-ever",
        ),
        pytest.param(
            [smart_pod("Launched", -20), node_claim("gpu-h100-x", -30, request="r1"), *EARLIER],
            [
                "wait: NodeClaim gpu-h100-x of NodePool gpu-h100 is coming for it (smart pod "
                "tensor-fusion-system/smart-gpu-scheduler-h100-r1, Launched for 20 s)",
                "expected at 12:00:30Z, in 30 s, nine of ten by 12:01:10Z: "
                "4 earlier NodeClaims of NodePool gpu-h100 took 50 to 100 s",
            ],
            id="as-long-as-earlier-ones",
        ),
        pytest.param(
            [smart_pod("Launched", -20), node_claim("gpu-h100-x", -65, request="r1"), *EARLIER],
            [
                "wait: NodeClaim gpu-h100-x of NodePool gpu-h100 is coming for it (smart pod "
                "tensor-fusion-system/smart-gpu-scheduler-h100-r1, Launched for 20 s)",
                "expected at 12:00:05Z, in 5 s, nine of ten by 12:00:35Z: "
                "4 earlier NodeClaims of NodePool gpu-h100 took 50 to 100 s",
            ],
            id="only-those-that-took-as-long-count",
        ),
        pytest.param(
            [smart_pod("Launched", -20), node_claim("gpu-h100-x", -300, request="r1"), *EARLIER],
            [
                "wait: NodeClaim gpu-h100-x of NodePool gpu-h100 is coming for it (smart pod "
                "tensor-fusion-system/smart-gpu-scheduler-h100-r1, Launched for 20 s)",
                "it is late: 300 s so far, and 4 earlier NodeClaims of NodePool gpu-h100 took 100 s or less",
            ],
            id="later-than-any",
        ),
        pytest.param(
            [smart_pod("Launched", -20), node_claim("gpu-h100-x", -30, request="r1"), UNPROTECTED_POOL],
            [
                "wait: NodeClaim gpu-h100-x of NodePool gpu-h100 is coming for it (smart pod "
                "tensor-fusion-system/smart-gpu-scheduler-h100-r1, Launched for 20 s)",
                "when it comes is not known: no NodeClaim of NodePool gpu-h100 has become Ready yet",
                "NodePool gpu-h100 is HandoverUnprotected: nodes are open",
            ],
            id="an-unprotected-node-pool",
        ),
        pytest.param(
            [closed_node()],
            ["wait: node n1 is handed over to it (request r1, for 2 s)"],
            id="handed-over",
        ),
    ],
)
def test_what_comes_is_told(
    objects: list[JsonObject], says: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert helped(tmp_path, capsys, *objects) == says


@pytest.mark.parametrize(
    ("reason", "retry", "end"),
    [
        (FailureReason.NO_INSTANCE_TYPE, 0.0, "tried again when the pod, the mapping or the NodePool changes"),
        (FailureReason.INSUFFICIENT_CAPACITY, 90.0, "tried again at 12:01:30Z"),
        (FailureReason.INSUFFICIENT_CAPACITY, -1.0, "tried again now"),
    ],
    ids=["permanent", "after-back-off", "due"],
)
def test_what_did_not_come_is_told(
    reason: FailureReason, retry: float, end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = helped(tmp_path, capsys, **failed(reason, "in its own words", retry))
    assert said == [f"Karpenter bought no node ({reason.value}, attempt 2): in its own words; {end}"]
