"""Claims and pods that contradict themselves or ask for what is not there: what is explained, and what the claim says.

The page about placement has this table for people.
"""

import pytest

from tests.decide.scenes import Scene, claim, leased, pod
from ullage.decide.claims.status import claim_status
from ullage.decide.explain.claim import explain_claim
from ullage.decide.explain.pod import PodExplanation, explain_pod
from ullage.decide.placement.prefilter import last_user_of, permanent_reason, with_claim
from ullage.kube.client.resource import JsonObject
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.refusal import SchedulingFailure
from ullage.model.units import Instant
from ullage.model.verdict import Reason

LATE = "2030-01-01T00:00:01Z"
ID_SEVEN = {"policy": "preferIds", "preferIds": [7]}


def explained(scene: Scene) -> PodExplanation:
    return explain_pod(scene.snapshot, scene.pod("waits"), scene.known, now=Instant(scene.now))


def refusal(scene: Scene, explanation: PodExplanation) -> SchedulingFailure:
    """As the scheduler remembers it."""
    pod, reasons = scene.pod("waits"), [rejection.reason for rejection in explanation.rejections]
    asking = with_claim(pod, scene.snapshot, scene.known.unreadable_claims)
    final = permanent_reason(asking if isinstance(asking, Pod) else pod, reasons, scene.snapshot)
    return SchedulingFailure(word=final or reasons[0], message=explanation.message, permanent=final is not None)


def claim_says(scene: Scene, why: SchedulingFailure, key: ObjectKey) -> tuple[str, str]:
    user = last_user_of(key, scene.snapshot)
    mine = user is not None and user.key.name == "waits"
    standing = claim_status(scene.snapshot.state.claims[key], user, refusal=why if mine else None)
    return standing.phase.value, standing.word


@pytest.mark.parametrize(
    ("objects", "reason", "phase", "word"),
    [
        pytest.param(
            [claim("c", 9), pod("waits", claim="c")],
            Reason.NODE_TOO_SMALL,
            "Failed",
            "NodeTooSmall",
            id="a-count-above-every-node",
        ),
        pytest.param(
            [claim("c"), pod("waits", claim="other/c")],
            Reason.CLAIM_MISSING,
            "Pending",
            "Unused",
            id="a-claim-of-another-namespace",
        ),
        pytest.param(
            [claim("c"), pod("first", claim="c", on="a", held="0"), pod("waits", claim="c", created=LATE)],
            Reason.CLAIM_IN_USE,
            "Bound",
            "Bound",
            id="a-claim-already-used",
        ),
        pytest.param(
            [claim("c", devices=ID_SEVEN), pod("waits", 2, claim="c")],
            Reason.CLAIM_INVALID,
            "Failed",
            "ClaimInvalid",
            id="fewer-ids-than-the-pod-requests",
        ),
        pytest.param(
            [claim("c", devices=ID_SEVEN), pod("waits", claim="c")],
            Reason.PREFERRED_GPUS_TAKEN,
            "Pending",
            "PreferredGpusTaken",
            id="ids-no-node-has",
        ),
        pytest.param(
            [claim("c"), pod("waits", claim="c", template="c")],
            Reason.CLAIM_INVALID,
            "Failed",
            "ClaimInvalid",
            id="a-claim-and-a-template",
        ),
        pytest.param(
            [claim("c", gangRef="nothing"), pod("waits", claim="c")],
            Reason.GANG_SIZE_UNKNOWN,
            "Pending",
            "GangSizeUnknown",
            id="a-gang-that-is-not-there",
        ),
    ],
)
def test_what_is_said_of_bad_input(objects: list[JsonObject], reason: Reason, phase: str, word: str) -> None:
    scene = Scene(leased("a", 4), objects)
    explanation = explained(scene)
    assert {verdict.reason for verdict in explanation.nodes.values()} == {reason}
    assert claim_says(scene, refusal(scene, explanation), ObjectKey("team", "c")) == (phase, word)


def test_a_claim_that_is_not_there_is_said_of_the_pod_alone() -> None:
    explanation = explained(Scene(leased("a"), pod("waits", claim="c")))
    assert (explanation.verdict, explanation.message) == ("ClaimMissing", "GpuClaim team/c is not there")


def test_a_claim_that_breaks_a_rule_is_explained_from_manifests() -> None:
    """An API server refuses it when it is made."""
    bad = claim("c", 2, devices={"policy": "preferIds", "preferIds": [1]})
    explanation = explained(Scene(leased("a"), bad, pod("waits", claim="c")))
    assert explanation.verdict == "ClaimInvalid"
    assert "spec.devices.preferIds" in explanation.message


def test_claim_and_request_together_are_no_contradiction() -> None:
    scene = Scene(leased("a"), claim("c", 2), pod("waits", 1, claim="c"))
    assert explained(scene).message == "1 of 1 nodes fit; it goes to a with GPU 0,1"


@pytest.mark.parametrize(
    ("objects", "verdict"),
    [
        ([], None),
        ([claim("c")], "Unused"),
        ([pod("waits", claim="c")], "ClaimMissing"),
        ([pod("waits", template="c")], "ClaimMissing"),
    ],
    ids=["nobody has heard of it", "it is there", "a pod names it", "a pod wants a copy of it"],
)
def test_a_claim_is_explained_if_it_is_there_or_somebody_names_it(
    objects: list[JsonObject], verdict: str | None
) -> None:
    scene = Scene(leased("a"), objects)
    answer = explain_claim(scene.snapshot, ObjectKey("team", "c"), scene.known, now=Instant(scene.now))
    assert (None if answer is None else answer.verdict) == verdict
