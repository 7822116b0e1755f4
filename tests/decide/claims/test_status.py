"""How a claim stands, by what has become of its pod."""

from typing import Any

import pytest
from msgspec.structs import replace

from ullage.decide.claims.status import A_WHILE, SHORT_WAIT, claim_status, is_for_others_to_say, patience, says
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import KubePod, PodSpec, PodStatus
from ullage.kube.read import read_pod
from ullage.model.allocation import ALLOCATED, Allocation
from ullage.model.claim import Claim, ClaimPhase, DeviceRequest
from ullage.model.claim_status import LONGEST_MESSAGE
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.refusal import SchedulingFailure

CLAIM = Claim(key=ObjectKey("default", "c"), uid="c1", generation=3, ask=DeviceRequest(count=2), phase=ClaimPhase.BOUND)
RESERVED = Allocation("node-b", (3, 2))
FULL = SchedulingFailure(word="TooFewGpus", message="0/3 nodes fit")
NEVER = SchedulingFailure(word="ClaimTooLarge", message="no node has 16 GPUs", permanent=True)
MISSING = SchedulingFailure(word="ClaimMissing", message="GpuClaim default/c is not there")
IN_USE = SchedulingFailure(word="ClaimInUse", message="it belongs to another")


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
        pytest.param(a_pod(), None, MISSING, ClaimPhase.PENDING, "Waiting", "", (), id="it-is-there-by-now"),
        pytest.param(a_pod(), None, IN_USE, ClaimPhase.PENDING, "Waiting", "", (), id="it-is-its-own-by-now"),
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
    refusal: SchedulingFailure | None,
    phase: ClaimPhase,
    word: str,
    node: str,
    gpus: tuple[int, ...],
) -> None:
    found = claim_status(CLAIM, pod, reserved=reserved, refusal=refusal)
    assert (found.phase, found.word, found.node, found.gpu_ids) == (phase, word, node, gpus)
    assert (found.claim, found.uid, found.generation) == (CLAIM.key, "c1", 3)
    assert found.message


def test_a_gated_pod_and_one_of_another_scheduler_are_not_ours_to_place() -> None:
    gated = replace(a_pod(), gated=True)
    assert claim_status(CLAIM, gated, refusal=FULL).word == "SchedulingGated"
    theirs = claim_status(CLAIM, replace(a_pod(), scheduler="default-scheduler"), ours=False)
    assert theirs.word == "OtherScheduler"
    assert "default-scheduler" in theirs.message
    assert claim_status(CLAIM, BOUND, ours=False).phase is ClaimPhase.BOUND


def test_a_template_says_so() -> None:
    assert "template" in claim_status(CLAIM, None, template=True).message


def test_a_message_is_cut_to_what_a_status_may_carry() -> None:
    long = SchedulingFailure(word="TooFewGpus", message="x" * 5000)
    assert len(claim_status(CLAIM, a_pod(), refusal=long).message) == LONGEST_MESSAGE


def saying(phase: ClaimPhase, word: str, **more: Any) -> Claim:
    """The claim with a status that says this, in the words a standing has for it."""
    return replace(CLAIM, phase=phase, word=word, observed=3, **more)


def test_a_status_says_a_standing_only_if_all_of_it_agrees() -> None:
    desired = claim_status(CLAIM, BOUND)
    right = saying(ClaimPhase.BOUND, "Bound", message=desired.message, node="node-a", gpu_ids=(0, 1))
    assert says(right, desired)
    wrong: list[dict[str, Any]] = [
        {"phase": ClaimPhase.RESERVED},
        {"word": ""},
        {"message": ""},
        {"node": "node-b"},
        {"gpu_ids": (0,)},
        {"observed": 2},
        {"uid": "c2"},
    ]
    assert not any(says(replace(right, **change), desired) for change in wrong)


PENDING, FAILED = ClaimPhase.PENDING, ClaimPhase.FAILED


@pytest.mark.parametrize(
    ("before", "pod", "told", "seconds"),
    [
        pytest.param((PENDING, "Unused"), BOUND, {}, 0.0, id="bound-at-once"),
        pytest.param(
            (PENDING, "Unused"), a_pod(), {"reserved": RESERVED}, SHORT_WAIT, id="reserved-unless-bound-first"
        ),
        pytest.param((ClaimPhase.BOUND, "Bound"), None, {}, SHORT_WAIT, id="its-pod-is-gone"),
        pytest.param((ClaimPhase.BOUND, "Bound"), a_pod(), {}, SHORT_WAIT, id="its-pod-came-back-and-waits"),
        pytest.param((PENDING, ""), a_pod(), {}, A_WHILE, id="not-tried-yet"),
        pytest.param((PENDING, "Unused"), a_pod(), {}, A_WHILE, id="used-but-not-tried-yet"),
        pytest.param((PENDING, ""), a_pod(), {"refusal": FULL}, SHORT_WAIT, id="the-first-refusal"),
        pytest.param((PENDING, "Waiting"), a_pod(), {"refusal": FULL}, SHORT_WAIT, id="the-first-after-waiting"),
        pytest.param((PENDING, "TooFewGpus"), a_pod(), {"refusal": FULL}, A_WHILE, id="the-same-in-other-words"),
        pytest.param((PENDING, "NoIsland"), a_pod(), {"refusal": FULL}, A_WHILE, id="another-reason-to-wait"),
        pytest.param((PENDING, "TooFewGpus"), a_pod(), {}, A_WHILE, id="a-restart-forgot-the-reason"),
        pytest.param((PENDING, "TooFewGpus"), a_pod(), {"refusal": NEVER}, SHORT_WAIT, id="hope-is-lost"),
        pytest.param((FAILED, "ClaimTooLarge"), a_pod(), {}, SHORT_WAIT, id="hope-is-back"),
        pytest.param((PENDING, "TooFewGpus"), None, {}, SHORT_WAIT, id="nobody-waits-any-more"),
    ],
)
def test_how_long_a_status_may_be_wrong(
    before: tuple[ClaimPhase, str], pod: Pod | None, told: dict[str, Any], seconds: float
) -> None:
    claim = saying(*before)
    assert patience(claim, claim_status(claim, pod, **told)) == seconds


@pytest.mark.parametrize(
    ("before", "theirs"),
    [
        pytest.param((PENDING, ""), False, id="nothing-was-said"),
        pytest.param((PENDING, "Unused"), False, id="a-pod-uses-it"),
        pytest.param((ClaimPhase.BOUND, "Bound"), False, id="nobody-is-bound"),
        pytest.param((ClaimPhase.RESERVED, "Reserved"), True, id="they-may-hold-gpus"),
        pytest.param((PENDING, "TooFewGpus"), True, id="they-may-know-why-it-waits"),
    ],
)
def test_what_is_left_to_another_scheduler(before: tuple[ClaimPhase, str], theirs: bool) -> None:
    claim = saying(*before)
    assert is_for_others_to_say(claim, claim_status(claim, a_pod(), ours=False)) is theirs
    assert not is_for_others_to_say(claim, claim_status(claim, a_pod()))
