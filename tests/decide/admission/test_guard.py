"""What is not let in."""

from typing import Any

import pytest

from tests.decide.admission.asking import ALICE, BY_INDEX, POLICY, SCHEDULER, admit, claiming, guarded
from ullage.decide.admission import claims, guard
from ullage.kube.client.resource import JsonObject
from ullage.model.admission import AS_IT_IS, AdmissionDenied, DenialReason, Judgement
from ullage.model.allocation import ALLOCATED, CLAIM, CLAIM_TEMPLATE, VISIBLE_DEVICES
from ullage.model.fact_event import ObjectKey
from ullage.testing.builders import a_pod

KEY = ObjectKey("team", "c")


def reason(judgement: Judgement) -> DenialReason | None:
    return judgement.reason if isinstance(judgement, AdmissionDenied) else None


def prepared(**spec: Any) -> JsonObject:
    return admit(claiming(**spec))[0]


@pytest.mark.parametrize(
    ("pod", "user", "expected"),
    [
        pytest.param(prepared(), ALICE, None, id="a-prepared-pod"),
        pytest.param(admit(claiming(), policy=BY_INDEX)[0], ALICE, None, id="one-prepared-by-another-setting"),
        pytest.param(claiming(), ALICE, DenialReason.ENV_MISSING, id="nobody-prepared-it"),
        pytest.param(claiming(), SCHEDULER, None, id="the-schedulers-own"),
        pytest.param(
            a_pod("p", annotations={ALLOCATED: "n:0"}),
            ALICE,
            DenialReason.FOREIGN_OUTPUT,
            id="an-allocation-of-ones-own",
        ),
        pytest.param(a_pod("p", annotations={ALLOCATED: "n:0"}), SCHEDULER, None, id="an-allocation-of-the-schedulers"),
        pytest.param(prepared(nodeName="n"), ALICE, DenialReason.NODE_CHOSEN, id="a-node-of-ones-own"),
        pytest.param(prepared(nodeName="n"), SCHEDULER, None, id="a-node-of-the-schedulers"),
        pytest.param(a_pod("p", annotations={"mine": "x"}, nodeName="n"), ALICE, None, id="no-claim-no-business"),
        pytest.param(
            a_pod("p", annotations={CLAIM: "a", CLAIM_TEMPLATE: "b"}), ALICE, DenialReason.TWO_CLAIMS, id="two-claims"
        ),
        pytest.param(
            a_pod("p", annotations={CLAIM: ""}), ALICE, DenialReason.CLAIM_UNNAMED, id="a-claim-without-a-name"
        ),
        pytest.param(
            a_pod("p", annotations={CLAIM_TEMPLATE: " "}),
            ALICE,
            DenialReason.CLAIM_UNNAMED,
            id="a-template-without-a-name",
        ),
        pytest.param(
            claiming(nodeSelector={"gpu.scheduling/node-kind": "counted"}), ALICE, None, id="a-device-plugins-business"
        ),
    ],
)
def test_new_pods(pod: JsonObject, user: str, expected: DenialReason | None) -> None:
    assert reason(guarded(pod, user=user)) == expected


@pytest.mark.parametrize(
    ("new", "old", "user", "expected"),
    [
        pytest.param({"mine": "2"}, {"mine": "1"}, ALICE, None, id="ones-own"),
        pytest.param({ALLOCATED: "n:0"}, {}, ALICE, DenialReason.FOREIGN_OUTPUT, id="added"),
        pytest.param({ALLOCATED: "n:1"}, {ALLOCATED: "n:0"}, ALICE, DenialReason.FOREIGN_OUTPUT, id="changed"),
        pytest.param({}, {VISIBLE_DEVICES: "GPU-a"}, ALICE, DenialReason.FOREIGN_OUTPUT, id="removed"),
        pytest.param({ALLOCATED: ""}, {}, ALICE, DenialReason.FOREIGN_OUTPUT, id="added-empty"),
        pytest.param({ALLOCATED: "n:0"}, {ALLOCATED: "n:0"}, ALICE, None, id="left-alone"),
        pytest.param({ALLOCATED: "n:0"}, {}, SCHEDULER, None, id="the-scheduler"),
        pytest.param({CLAIM: "c"}, {}, ALICE, DenialReason.CLAIM_FIXED, id="a-claim-comes-late"),
        pytest.param({CLAIM: "d"}, {CLAIM: "c"}, ALICE, DenialReason.CLAIM_FIXED, id="another-claim"),
        pytest.param({}, {CLAIM_TEMPLATE: "c"}, ALICE, DenialReason.CLAIM_FIXED, id="no-claim-any-more"),
    ],
)
def test_changed_pods(new: dict[str, str], old: dict[str, str], user: str, expected: DenialReason | None) -> None:
    assert reason(guard.changed_pod(new, old, user, POLICY)) == expected


@pytest.mark.parametrize(
    ("notes", "user", "expected"),
    [
        pytest.param({}, ALICE, None, id="plain"),
        pytest.param({ALLOCATED: "n:0"}, ALICE, DenialReason.FOREIGN_OUTPUT, id="with-an-allocation"),
        pytest.param({ALLOCATED: "n:0"}, SCHEDULER, None, id="the-schedulers"),
    ],
)
def test_bindings(notes: dict[str, str], user: str, expected: DenialReason | None) -> None:
    assert reason(guard.binding(notes, user, POLICY)) == expected


def test_a_refusal_names_what_and_who() -> None:
    refused = guard.changed_pod({ALLOCATED: "n:0"}, {}, ALICE, POLICY)
    assert isinstance(refused, AdmissionDenied)
    assert refused.message == "only the scheduler writes gpu.scheduling/allocated; 'alice' is not it"


@pytest.mark.parametrize(
    ("wrong", "phase", "holders", "expected"),
    [
        pytest.param([], "", [], None, id="nobody-uses-it"),
        pytest.param([], "Pending", [], None, id="waiting"),
        pytest.param([], "Reserved", [], DenialReason.CLAIM_HELD, id="reserved"),
        pytest.param([], "Bound", [], DenialReason.CLAIM_HELD, id="bound"),
        pytest.param(
            [], "", [ObjectKey("team", "p")], DenialReason.CLAIM_HELD, id="a-pod-holds-whatever-the-status-says"
        ),
        pytest.param(["spec.devices.count: 17"], "", [], DenialReason.CLAIM_IMPOSSIBLE, id="impossible"),
    ],
)
def test_changed_claims(wrong: list[str], phase: str, holders: list[ObjectKey], expected: DenialReason | None) -> None:
    assert reason(claims.changed_claim(KEY, wrong, phase, holders)) == expected


def test_new_claims() -> None:
    assert claims.new_claim(KEY, []) == AS_IT_IS
    assert claims.new_claim(KEY, ["a: is b", "c: is d"]) == AdmissionDenied(
        DenialReason.CLAIM_IMPOSSIBLE, "GpuClaim team/c can never be satisfied: a: is b; c: is d"
    )
