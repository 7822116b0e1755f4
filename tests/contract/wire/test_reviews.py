"""Questions a server answers about the caller, in JSON and in the binary form typed clients speak."""

from typing import Any

from tests.contract.wire.asking import Wire

ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def framed(number: int, body: bytes) -> bytes:
    """A field with bytes in it."""
    return bytes([number << 3 | 2, len(body)]) + body


def binary(version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + framed(1, framed(1, version.encode()) + framed(2, kind.encode())) + framed(2, raw)


def question(**spec: Any) -> Any:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}


async def test_an_administrator_may(wire: Wire) -> None:
    told = await wire.post(
        ACCESS, question(resourceAttributes={"verb": "create", "resource": "pods", "namespace": "x"})
    )
    assert (told.status, told.body["status"]["allowed"]) == (201, True)
    assert told.body["spec"]["resourceAttributes"]["verb"] == "create"


async def test_a_path_is_asked_about_too(wire: Wire) -> None:
    told = await wire.post(ACCESS, question(nonResourceAttributes={"verb": "get", "path": "/version"}))
    assert told.body["status"]["allowed"] is True


async def test_asking_nothing_is_refused(wire: Wire) -> None:
    told = await wire.post(ACCESS, question())
    assert (told.status, told.body["reason"]) == (422, "Invalid")


async def test_a_question_in_the_binary_form(wire: Wire) -> None:
    attributes = framed(1, b"default") + framed(2, b"create") + framed(5, b"pods")
    body = binary("authorization.k8s.io/v1", "SelfSubjectAccessReview", framed(2, framed(1, attributes)))
    told = await wire.ask("POST", ACCESS, body, kind=PROTOBUF, accept=f"{PROTOBUF}+x,application/json")
    assert (told.status, told.body["status"]["allowed"]) == (201, True)
    assert told.body["spec"]["resourceAttributes"] == {"namespace": "default", "verb": "create", "resource": "pods"}


async def test_objects_in_the_binary_form(wire: Wire) -> None:
    metadata = framed(1, b"b") + framed(11, framed(1, b"k") + framed(2, b"v"))
    raw = (
        framed(1, metadata)
        + framed(2, framed(1, b"key") + framed(2, b"value"))
        + framed(3, framed(1, b"raw") + framed(2, b"\xff"))
    )
    told = await wire.ask("POST", "/api/v1/namespaces/{ns}/configmaps", binary("v1", "ConfigMap", raw), kind=PROTOBUF)
    assert told.status == 201, told.body
    assert (told.body["metadata"]["labels"], told.body["data"], told.body["binaryData"]) == (
        {"k": "v"},
        {"key": "value"},
        {"raw": "/w=="},
    )


async def test_what_is_no_message_is_refused(wire: Wire) -> None:
    told = await wire.ask("POST", "/api/v1/namespaces/{ns}/configmaps", b"nonsense", kind=PROTOBUF)
    assert (told.status, told.body["reason"]) == (400, "BadRequest")


async def test_unknown_forms_are_refused(wire: Wire) -> None:
    told = await wire.ask("POST", "/api/v1/namespaces/{ns}/configmaps", b"<a/>", kind="text/xml")
    assert (told.status, told.body["reason"]) == (415, "UnsupportedMediaType")
    told = await wire.get("/api/v1/namespaces/{ns}/configmaps", "text/xml")
    assert (told.status, told.body["reason"]) == (406, "NotAcceptable")


async def test_who_am_i(wire: Wire) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    told = await wire.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    assert told.status == 201
    assert told.body["status"]["userInfo"]["username"]
