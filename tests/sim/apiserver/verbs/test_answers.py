"""What the server says to requests that make no sense to it."""

from typing import Any

import pytest

from tests.sim.apiserver.asking import JSON_PATCH, MAPS, MERGE, PODS, Client
from ullage.sim.apiserver.request.authorization import AuthorizationRequest
from ullage.sim.apiserver.server import SimulatedApiServer
from ullage.testing.builders import a_config_map, a_pod


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        pytest.param("GET", "/apis/nobody/v1/things", None, 404, "404 page not found\n", id="unknown-group"),
        pytest.param(
            "GET", "/api/v1/things", None, 404, "the server could not find the requested resource", id="unknown-kind"
        ),
        pytest.param(
            "PUT", PODS, {}, 405, "the server does not allow this method on the requested resource", id="wrong-method"
        ),
        pytest.param("GET", f"{PODS}/a", None, 404, 'pods "a" not found', id="missing-object"),
        pytest.param(
            "POST", "/api/v1/namespaces/no/pods", a_pod("a"), 404, 'namespaces "no" not found', id="missing-namespace"
        ),
        pytest.param(
            "POST", PODS, {"metadata": {"name": "a"}}, 422, 'Pod "a" is invalid: spec.containers: Required value',
            id="no-containers",
        ),
        pytest.param(
            "POST", PODS, {**a_pod("a"), "kind": "Node", "apiVersion": "v1"}, 400,
            'Node in version "v1" cannot be handled as a Pod: converting (v1.Node) to (core.Pod): unknown conversion',
            id="another-kind",
        ),
        pytest.param(
            "PUT", f"{MAPS}/a", a_config_map("b"), 400,
            "the name of the object (b) does not match the name on the URL (a)",
            id="another-name",
        ),
        pytest.param(
            "PUT", f"{MAPS}/a", {"metadata": {}}, 400,
            "the name of the object (a based on URL) was undeterminable: name must be provided", id="no-name",
        ),
        pytest.param(
            "POST", MAPS, {"metadata": {"name": "a", "resourceVersion": "5"}}, 500,
            "resourceVersion should not be set on objects to be created", id="born-with-a-version",
        ),
        pytest.param(
            "POST", f"{PODS}/a/status", {}, 405, "the server does not allow this method on the requested resource",
            id="post-to-status",
        ),
    ],
)  # fmt: skip
def test_refusals(client: Client, method: str, path: str, body: Any, status: int, message: str) -> None:
    answer = client.ask(method, path, body)
    said = answer.body if isinstance(answer.body, str) else answer.message
    assert (answer.status, said) == (status, message)


def test_a_refusal_is_a_status_object(client: Client) -> None:
    client.post(MAPS, a_config_map("a"))
    assert client.post(MAPS, a_config_map("a")).body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "a" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "a", "kind": "configmaps"},
        "code": 409,
    }


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{bad", id="no-json"),
        pytest.param(b"[]", id="a-list"),
        pytest.param(b'{"metadata": "x"}', id="metadata-is-text"),
    ],
)
def test_a_body_that_is_no_object_is_a_bad_request(client: Client, body: bytes) -> None:
    for path in (PODS, MAPS):
        assert client.post(path, body).status == 400


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        pytest.param("application/json", {}, 415, id="no-patch-type"),
        pytest.param("application/strategic-merge-patch+json", [], 400, id="strategic-with-a-list"),
        pytest.param(MERGE, [], 400, id="merge-with-a-list"),
        pytest.param(JSON_PATCH, {}, 400, id="operations-in-an-object"),
        pytest.param(JSON_PATCH, [{"op": "test", "path": "/data/x", "value": "2"}], 422, id="failed-test"),
        pytest.param(JSON_PATCH, [{"op": "replace", "path": "", "value": 5}], 422, id="no-object-left"),
        pytest.param(JSON_PATCH, [{"op": "remove", "path": "/metadata"}], 422, id="no-metadata-left"),
    ],
)
def test_patches_that_do_not_apply(client: Client, kind: str, body: Any, status: int) -> None:
    client.post(MAPS, a_config_map("a", x="1"))
    before = client.get(f"{MAPS}/a").body
    assert client.ask("PATCH", f"{MAPS}/a", body, kind).status == status
    assert client.get(f"{MAPS}/a").body == before


def test_yaml_is_read_and_what_nobody_reads_is_refused(client: Client) -> None:
    text = b"metadata: {name: a}\ndata: {x: 'yes'}\n"
    assert client.ask("POST", MAPS, text, "application/yaml").body["data"] == {"x": "yes"}
    assert client.ask("POST", MAPS, b"a: [", "application/yaml").status == 400
    assert client.ask("POST", MAPS, b"k8s", "application/cbor").status == 415


def test_who_may_not_is_told_what(clock: Any) -> None:
    def only_reads(asked: AuthorizationRequest) -> bool:
        return asked.verb in ("get", "list", "watch")

    client = Client(SimulatedApiServer(clock, authorise=only_reads), user="system:serviceaccount:a:b")
    refused = client.post(MAPS, a_config_map("a"))
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.message == (
        'configmaps is forbidden: User "system:serviceaccount:a:b" cannot create resource "configmaps" in API group "" '
        'in the namespace "default"'
    )
    assert client.get(MAPS).status == 200
    bound = client.post(f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "n"}})
    assert 'cannot create resource "pods/binding"' in bound.message


def test_two_servers_of_one_seed_give_the_same_answers(clock: Any) -> None:
    def story(server: SimulatedApiServer) -> list[bytes]:
        client = Client(server)
        made = [client.post(PODS, {**a_pod(""), "metadata": {"generateName": "p-"}}) for _ in range(5)]
        return [repr(answer).encode() for answer in made]

    one, same = (story(SimulatedApiServer(clock, seed=3)) for _ in range(2))
    assert one == same
    assert one != story(SimulatedApiServer(clock, seed=4))
