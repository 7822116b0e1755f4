"""Reviews to answers: every body gets one, with the uid where there is one to be read."""

import json
from base64 import b64decode
from typing import Any

import pytest

from ullage.kube.client.resource import JsonObject
from ullage.model.allocation import ALLOCATED, CLAIM
from ullage.model.fact_event import ObjectKey
from ullage.testing.admission import CLAIMS_V1, PODS_V1, UID, a_review, a_reviewer, encoded
from ullage.testing.builders import a_container, a_pod
from ullage.webhook.reviewer import ReviewAnswer

POD = a_pod("p", annotations={CLAIM: "c"})


def response(answered: ReviewAnswer) -> JsonObject:
    assert answered.code == 200, answered
    review = json.loads(answered.body)
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert review["response"]["uid"] == UID
    found: JsonObject = review["response"]
    return found


async def test_a_pod_with_a_claim_is_patched() -> None:
    said = response(await a_reviewer().mutate(encoded(a_review(POD))))
    assert (said["allowed"], said["patchType"]) == (True, "JSONPatch")
    paths = [step["path"] for step in json.loads(b64decode(said["patch"]))]
    assert paths == [
        "/spec/schedulerName",
        "/spec/nodeSelector",
        "/spec/tolerations",
        "/spec/containers/0/env",
        "/spec/containers/0/resources",
    ]


async def test_a_pod_without_one_is_let_in_as_it_is() -> None:
    said = response(await a_reviewer(down=True).mutate(encoded(a_review(a_pod("p")))))
    assert said == {"uid": UID, "allowed": True}


async def test_what_is_not_asked_of_us_is_let_in_as_it_is() -> None:
    review = a_review({"spec": "whatever"}, resource={"group": "apps", "version": "v1", "resource": "deployments"})
    for ask in (a_reviewer().mutate, a_reviewer().validate):
        assert response(await ask(encoded(review))) == {"uid": UID, "allowed": True}


async def test_without_an_api_server_a_claim_pod_is_refused_for_now() -> None:
    said = response(await a_reviewer(down=True).mutate(encoded(a_review(POD))))
    assert (said["allowed"], said["status"]["code"]) == (False, 503)
    assert said["status"]["message"].startswith("ClaimUnknown: the API server did not say: connection refused")


FOREIGN = {"metadata": {"annotations": {ALLOCATED: "n:0"}}}
BARE: JsonObject = {"metadata": {"annotations": None}}
CHANGED = {"metadata": {"name": "c"}, "spec": {"devices": {"count": 3}}}
CLAIMED = {"metadata": {"name": "c"}, "spec": {"devices": {"count": 2}}}
IMPOSSIBLE = {"metadata": {"name": "c"}, "spec": {"devices": {"count": 2, "policy": "preferIds", "preferIds": [1]}}}


@pytest.mark.parametrize(
    ("review", "says"),
    [
        pytest.param(a_review(FOREIGN, BARE), "ForeignOutput", id="pods"),
        pytest.param(a_review(FOREIGN, BARE, subResource="status"), "ForeignOutput", id="pods-status"),
        pytest.param(a_review(FOREIGN, BARE, subResource="ephemeralcontainers"), "ForeignOutput", id="ephemeral"),
        pytest.param(a_review(FOREIGN, subResource="binding"), "ForeignOutput", id="pods-binding"),
        pytest.param(a_review(FOREIGN, resource=PODS_V1 | {"resource": "bindings"}), "ForeignOutput", id="bindings"),
        pytest.param(a_review(POD), "EnvMissing", id="a-pod-nobody-prepared"),
        pytest.param(
            a_review(IMPOSSIBLE, resource=CLAIMS_V1),
            "spec.devices.preferIds: must name exactly as many GPUs as count",
            id="an-impossible-claim",
        ),
        pytest.param(a_review(CHANGED, CLAIMED, resource=CLAIMS_V1, name="c"), "while a pod holds", id="a-held-claim"),
    ],
)
async def test_refusals(review: JsonObject, says: str) -> None:
    said = response(await a_reviewer(holders=[ObjectKey("team", "p")]).validate(encoded(review)))
    assert said["allowed"] is False
    assert says in said["status"]["message"]


async def test_a_held_claim_may_change_in_other_ways() -> None:
    review = a_review(CLAIMED, CLAIMED, resource=CLAIMS_V1, name="c")
    said = response(await a_reviewer(holders=[ObjectKey("team", "p")]).validate(encoded(review)))
    assert said["allowed"] is True


def containers(value: Any) -> JsonObject:
    return {"metadata": POD["metadata"], "spec": {"containers": value}}


GPUS = {"requests": {"nvidia.com/gpu": "many"}}


@pytest.mark.parametrize(
    ("review", "says"),
    [
        pytest.param(a_review(None), "object: Expected `object`, got `null`", id="no-object"),
        pytest.param(a_review("pod"), "object: Expected `object`, got `str`", id="a-text-for-a-pod"),
        pytest.param(a_review(containers("x")), "at `$.spec.containers`", id="a-text-for-containers"),
        pytest.param(a_review(containers([{"env": {"a": "b"}}])), "at `$.spec.containers[0].env`", id="a-map-for-env"),
        pytest.param(a_review(containers([a_container() | {"resources": GPUS}])), "'many'", id="no-number-of-gpus"),
        pytest.param(a_review(POD) | {"apiVersion": "admission.k8s.io/v1beta1"}, "v1beta1", id="an-old-version"),
        pytest.param(a_review(POD) | {"kind": "Pod"}, "is not admission.k8s.io/v1", id="another-kind"),
        pytest.param(a_review(POD, userInfo="alice"), "userInfo", id="a-text-for-a-user"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_its_uid(review: JsonObject, says: str) -> None:
    said = response(await a_reviewer().mutate(encoded(review)))
    assert (said["allowed"], said["status"]["code"]) == (False, 400)
    assert says in said["status"]["message"]


DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xfe", id="no-text"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="a-list"),
        pytest.param(encoded(a_review(POD))[:-100], id="cut-off"),
        pytest.param(encoded(a_review(POD, uid=7)), id="a-number-for-a-uid"),
        pytest.param(encoded({"request": {"uid": "x" * 10_000}}), id="a-uid-without-end"),
        pytest.param(DEEP, id="nested-without-end"),
    ],
)
async def test_what_has_no_uid_gets_a_status(body: bytes) -> None:
    answered = await a_reviewer().mutate(body)
    assert answered.code == 400
    assert json.loads(answered.body)["kind"] == "Status"


async def test_a_deep_object_is_refused_with_its_uid() -> None:
    body = encoded(a_review("@")).replace(b'"@"', b'{"spec":' + DEEP + b"}")
    answered = await a_reviewer().mutate(body)
    assert answered.code in (200, 400)
    assert b"nested too deeply" in answered.body
