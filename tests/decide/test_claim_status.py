"""How a claim stands, by what has become of its pod."""

from typing import Any

import pytest

from ullage.decide.claim_status import claim_standing
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import Pod as KubePod
from ullage.kube.objects.pod import PodSpec, PodStatus
from ullage.kube.read import read_pod
from ullage.model.allocation import ALLOCATED, Allocation
from ullage.model.claim import Claim, ClaimPhase, DeviceAsk
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.refusal import Refusal

CLAIM = Claim(key=ObjectKey("default", "c"), uid="c1", generation=3, ask=DeviceAsk(count=2), phase=ClaimPhase.BOUND)
RESERVED = Allocation("node-b", (3, 2))
FULL = Refusal(word="TooFewGpus", message="0/3 nodes fit")
NEVER = Refusal(word="ClaimTooLarge", message="no node has 16 GPUs", hopeless=True)


def a_pod(node: str = "", allocated: str = "", phase: str = "Pending", **meta: Any) -> Pod:
    notes = {ALLOCATED: allocated} if allocated else {}
    raw = KubePod(
        metadata=ObjectMeta(namespace="default", name="p", uid="u1", annotations=notes, **meta),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase),
    )
    return read_pod(raw)


BOUND = a_pod("node-a", "node-a:1,0", "Running")


@pytest.mark.parametrize(
    ("pod", "reserved", "refusal", "phase", "word", "node", "gpus"),
    [
        pytest.param(None, None, None, ClaimPhase.PENDING, "Unused", "", (), id="nobody-uses-it"),
        pytest.param(None, RESERVED, FULL, ClaimPhase.PENDING, "Unused", "", (), id="its-pod-went-while-we-remember"),
        pytest.param(a_pod(), None, None, ClaimPhase.PENDING, "Waiting", "", (), id="its-pod-waits"),
        pytest.param(a_pod(), None, FULL, ClaimPhase.PENDING, "TooFewGpus", "", (), id="refused-for-now"),
        pytest.param(a_pod(), None, NEVER, ClaimPhase.FAILED, "ClaimTooLarge", "", (), id="refused-for-good"),
        pytest.param(a_pod(), RESERVED, FULL, ClaimPhase.RESERVED, "Reserved", "node-b", (2, 3), id="held-for-its-pod"),
        pytest.param(BOUND, RESERVED, FULL, ClaimPhase.BOUND, "Bound", "node-a", (0, 1), id="bound-as-the-pod-says"),
        pytest.param(
            a_pod("node-a", "node-a:0", "Running", deletion_timestamp="2030-01-01T00:00:00Z"),
            None,
            None,
            ClaimPhase.BOUND,
            "Bound",
            "node-a",
            (0,),
            id="bound-until-it-is-gone",
        ),
        pytest.param(a_pod("node-a"), None, None, ClaimPhase.BOUND, "Bound", "node-a", (), id="bound-by-count"),
        pytest.param(
            a_pod("node-a", "node-a:0", "Succeeded"),
            None,
            None,
            ClaimPhase.PENDING,
            "PodFinished",
            "",
            (),
            id="finished",
        ),
        pytest.param(
            a_pod("node-a", "node-a:0", "Failed"), None, FULL, ClaimPhase.PENDING, "PodFinished", "", (), id="failed"
        ),
    ],
)
def test_a_claim_stands_as_its_pod_does(
    pod: Pod | None,
    reserved: Allocation | None,
    refusal: Refusal | None,
    phase: ClaimPhase,
    word: str,
    node: str,
    gpus: tuple[int, ...],
) -> None:
    found = claim_standing(CLAIM, pod, reserved=reserved, refusal=refusal)
    assert (found.phase, found.word, found.node, found.gpu_ids) == (phase, word, node, gpus)
    assert (found.claim, found.uid, found.generation) == (CLAIM.key, "c1", 3)
    assert found.message
