"""Objects in Kubernetes' binary form: read back as they were written, and never in part."""

import pytest

from ullage.kube.client.protobuf_writer import compact
from ullage.kube.client.resource import JsonObject
from ullage.sim.apiserver.types.catalog import base_type, catalog
from ullage.sim.apiserver.types.protobuf_reader import NotReadable, read_binary

LEASE: JsonObject = {
    "kind": "Lease",
    "apiVersion": "coordination.k8s.io/v1",
    "metadata": {"name": "l", "namespace": "n", "labels": {"a": "b", "c": ""}},
    "spec": {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-11-16T07:00:00.123456Z",
        "leaseTransitions": -1,
    },
}


def framed(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | 2, len(body)]) + body


def pod(raw: bytes) -> bytes:
    return b"k8s\x00" + framed(1, framed(1, b"v1") + framed(2, b"Pod")) + framed(2, raw)


def test_what_our_own_writer_writes_is_read() -> None:
    written = compact(LEASE)
    assert written is not None
    assert read_binary(written) == LEASE


def test_embedded_messages_and_amounts() -> None:
    amount = framed(1, b"nvidia.com/gpu") + framed(2, framed(1, b"2"))
    container = framed(1, b"c") + framed(2, b"i") + framed(8, framed(1, amount))
    volume = framed(1, b"v") + framed(2, framed(2, framed(1, b"Memory")))
    probe = bytes([2 << 3, 5]) + framed(1, framed(2, framed(2, bytes([1 << 3, 0, 2 << 3, 80]))))
    spec = framed(2, container + framed(10, probe)) + framed(1, volume)
    assert read_binary(pod(framed(2, spec)))["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resources": {"limits": {"nvidia.com/gpu": "2"}},
                "livenessProbe": {"initialDelaySeconds": 5, "httpGet": {"port": 80}},
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
    }


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"{}", "does not begin", id="json"),
        pytest.param(pod(framed(2, framed(2, b"\x0a\x05ab"))), "cut short", id="cut"),
        pytest.param(pod(framed(2, framed(15, b"")) + b"\xfa\x07\x01x"), "no field number 127", id="unknown-field"),
        pytest.param(pod(b"\x0b"), "wire type 3", id="unknown-wire-type"),
        pytest.param(
            b"k8s\x00" + framed(1, framed(1, b"x.example/v1") + framed(2, b"Thing")), "in JSON only", id="unknown-kind"
        ),
    ],
)
def test_what_is_not_understood_is_refused(body: bytes, problem: str) -> None:
    with pytest.raises(NotReadable, match=problem):
        read_binary(body)


def test_the_catalog_is_whole() -> None:
    scalars = {
        "string", "bytes", "bool", "int32", "int64", "double", "quantity", "intOrString", "time", "microtime", "object",
        "fields", "json", "schemaOrBool", "schemaOrArray", "schemaOrStrings",
    }  # fmt: skip
    named = {base_type(field.type) for one in catalog().values() for field in one.fields.values()}
    assert named - set(catalog()) <= scalars
    assert len(catalog()) > 300
