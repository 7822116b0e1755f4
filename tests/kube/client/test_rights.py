"""Rights that the API server denies: told once, and once more when they are there again."""

import asyncio

import msgspec
import pytest

from tests.kube.scripted import ScriptedTransport
from ullage.kube.client.rights import RightsTransport, right_of
from ullage.kube.client.transport import Request, Response

PODS = "/api/v1/namespaces/team/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/ullage-system/leases"


@pytest.mark.parametrize(
    ("method", "path", "right"),
    [
        pytest.param("POST", f"{PODS}/p/binding", "create pods/binding", id="subresource"),
        pytest.param("PUT", f"{LEASES}/l", "update leases.coordination.k8s.io", id="group"),
        pytest.param("PATCH", "/api/v1/nodes/n/status", "patch nodes/status", id="of-the-cluster"),
        pytest.param("POST", "/api/v1/namespaces", "create namespaces", id="namespace-is-made"),
        pytest.param("DELETE", "/api/v1/namespaces/team", "delete namespaces", id="namespace-goes"),
        pytest.param("GET", f"{PODS}/p", "get pods", id="read"),
        pytest.param("GET", PODS, "", id="list"),
        pytest.param("GET", "/api/v1/namespaces", "", id="list-of-namespaces"),
        pytest.param("GET", "/version", "", id="no-object"),
        pytest.param("GET", "/apis", "", id="discovery"),
    ],
)
def test_the_right_that_a_request_needs(method: str, path: str, right: str) -> None:
    assert right_of(Request(method, path)) == right


def denied(words: str, code: int = 403) -> Response:
    return Response(code, msgspec.json.encode({"code": code, "message": words}))


BY_RBAC = (
    'pods "p" is forbidden: User "u" cannot create resource "pods/binding" in API group "" in the namespace "team"'
)
BY_WEBHOOK = 'admission webhook "x" denied the request: you cannot have that'
WITHIN = (
    'ResourceClaim "c" is invalid: status.allocation: Forbidden: changing it requires a permission: User "u" cannot '
    'patch resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
)
WELL, GONE = Response(201, b"{}"), Response(404, b"{}")


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        pytest.param([WELL], [], id="allowed"),
        pytest.param([denied(BY_RBAC), denied(BY_RBAC)], ["-create pods/binding"], id="told-once"),
        pytest.param(
            [denied(BY_RBAC), WELL, WELL, denied(BY_RBAC)],
            ["-create pods/binding", "+create pods/binding", "-create pods/binding"],
            id="back-and-gone-again",
        ),
        pytest.param([denied(BY_RBAC), GONE], ["-create pods/binding"], id="404-shows-nothing"),
        pytest.param(
            [denied(WITHIN, 422), WELL],
            ["-patch resourceclaims/binding.resource.k8s.io", "+patch resourceclaims/binding.resource.k8s.io"],
            id="asked-for-within-a-request",
        ),
        pytest.param([denied("spec.x: Invalid value", 422)], [], id="invalid"),
        pytest.param([denied(BY_WEBHOOK)], [], id="a-webhook-refuses"),
        pytest.param([Response(403, b"<html>proxy</html>")], [], id="a-proxy-refuses"),
    ],
)
def test_what_is_told(answers: list[Response], told: list[str]) -> None:
    said: list[str] = []
    wire = ScriptedTransport(answers=list(answers))
    watched = RightsTransport(wire, lambda right, _: said.append(f"-{right}"), lambda right: said.append(f"+{right}"))

    async def ask() -> None:
        for answer in answers:
            assert await watched.send(Request("POST", f"{PODS}/p/binding")) is answer

    asyncio.run(ask())
    assert said == told
