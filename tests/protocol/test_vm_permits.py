"""Permit messages: every error with its status and text, in the order of checks; both ways of each version; fuzz."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vms import GI, size
from ullage.model.fact_event import ObjectKey
from ullage.model.vm import VmAmounts, VmRefusal
from ullage.protocol.vm_permits import (
    MAX_BODY,
    BadAnswer,
    MessageAmounts,
    PermitAnswer,
    PermitMessage,
    Rejection,
    WireAmounts,
    ledger_units,
    read_answer,
    read_request,
    rejection,
    unit_mismatch,
    version_name,
    write_answer,
    write_request,
)

POD = {"namespace": "ns", "name": "p"}
V2: dict[str, Any] = {
    "protoVersion": 2,
    "pod": POD,
    "resources": {"vCPUs": 2, "mem": 2},
    "metrics": {"loadAvg1M": 1.5, "loadAvg5M": 1.2},
}
V7: dict[str, Any] = {
    "protoVersion": 7,
    "pod": POD,
    "computeUnit": {"vCPUs": "250m", "mem": "1Gi"},
    "resources": {"vCPUs": "500m", "mem": "2Gi"},
    "lastPermit": {"vCPUs": "250m", "mem": "1Gi"},
    "metrics": {"loadAvg1M": 0.3},
}


def body(message: dict[str, Any], **changes: Any) -> bytes:
    """A message with some fields changed; `...` takes one away."""
    return json.dumps({name: value for name, value in {**message, **changes}.items() if value is not ...}).encode()


def test_version_2() -> None:
    assert read_request("POST", body(V2)) == PermitMessage(
        version=2, pod=ObjectKey("ns", "p"), resources=WireAmounts(2000, 2), load1=1.5, load5=1.2
    )


def test_version_7() -> None:
    assert read_request("POST", body(V7)) == PermitMessage(
        version=7,
        pod=ObjectKey("ns", "p"),
        resources=WireAmounts(500, 2 * GI),
        unit=WireAmounts(250, GI),
        last_permit=WireAmounts(250, GI),
        load1=0.3,
    )


@pytest.mark.parametrize(
    "accepted",
    [
        pytest.param(body(V2, metrics=None), id="version-2-without-metrics"),
        pytest.param(body(V7, metrics=None), id="version-7-without-metrics"),
        pytest.param(body(V7, metrics=...), id="version-7-with-no-word-of-metrics"),
        pytest.param(body(V7, lastPermit=None), id="no-last-permit"),
        pytest.param(body(V7, more="than we know"), id="unknown-field"),
        pytest.param(body(V7, resources={"vCPUs": 2, "mem": 4096}), id="plain-numbers"),
        pytest.param(body(V7, resources={"vCPUs": "1.5", "mem": "1.5Gi"}), id="fractions"),
        pytest.param(body(V2, pod={}), id="a-pod-without-name-is-found-missing-later"),
    ],
)
def test_accepted(accepted: bytes) -> None:
    assert isinstance(read_request("POST", accepted), PermitMessage)


@pytest.mark.parametrize(
    ("method", "sent", "status", "text"),
    [
        pytest.param("GET", body(V7), 400, "must be POST", id="get"),
        pytest.param("PUT", b"", 400, "must be POST", id="the-method-comes-before-the-body"),
        pytest.param("POST", b"", 400, "bad JSON", id="empty"),
        pytest.param("POST", b"{", 400, "bad JSON", id="cut-off"),
        pytest.param("POST", b"\xff\xfe", 400, "bad JSON", id="no-utf-8"),
        pytest.param("POST", b"[]", 400, "bad JSON", id="no-object"),
        pytest.param("POST", b"[" * MAX_BODY, 400, "bad JSON", id="deep"),
        pytest.param("POST", body(V7, more="x" * MAX_BODY), 400, "bad JSON", id="too-long"),
        pytest.param("POST", body(V7, protoVersion="7"), 400, "bad JSON", id="version-as-text"),
        pytest.param("POST", body(V7, protoVersion=True), 400, "bad JSON", id="version-true"),
        pytest.param("POST", body(V7, protoVersion=-1), 400, "bad JSON", id="version-negative"),
        pytest.param("POST", body(V7, protoVersion=1 << 32), 400, "bad JSON", id="version-beyond-uint32"),
        pytest.param("POST", body(V2, resources={"vCPUs": "2", "mem": 2}), 400, "bad JSON", id="cores-as-text"),
        pytest.param("POST", body(V2, resources={"vCPUs": 0.5, "mem": 2}), 400, "bad JSON", id="half-a-core"),
        pytest.param("POST", body(V2, resources={"vCPUs": 1, "mem": 65536}), 400, "bad JSON", id="beyond-uint16"),
        pytest.param("POST", body(V7, resources={"vCPUs": "-1", "mem": 1}), 400, "bad JSON", id="negative"),
        pytest.param("POST", body(V7, resources={"vCPUs": "two", "mem": 1}), 400, "bad JSON", id="no-quantity"),
        pytest.param("POST", body(V7, resources={"vCPUs": 1, "mem": "9e99"}), 400, "bad JSON", id="beyond-int64"),
        pytest.param("POST", body(V7, resources=[]), 400, "bad JSON", id="resources-no-object"),
        pytest.param("POST", body(V7, pod="ns/p"), 400, "bad JSON", id="pod-as-text"),
        pytest.param("POST", body(V7, pod={"name": 1}), 400, "bad JSON", id="name-as-number"),
        pytest.param("POST", body(V7, metrics={"loadAvg1M": "1"}), 400, "bad JSON", id="load-as-text"),
        pytest.param("POST", body(V7, metrics={"loadAvg1M": int("9" * 400)}), 400, "bad JSON", id="load-endless"),
        pytest.param("POST", body(V7, protoVersion=0), 400, "Invalid protocol version <invalid: zero>", id="version-0"),
        pytest.param("POST", b"{}", 400, "Invalid protocol version <invalid: zero>", id="no-version"),
        pytest.param(
            "POST",
            body(V7, protoVersion=3),
            400,
            "Protocol version mismatch: Need v1.0 to v1.1 or v5.0 but got v2.0",
            id="version-not-served",
        ),
        pytest.param(
            "POST",
            body(V7, protoVersion=10),
            400,
            "Protocol version mismatch: Need v1.0 to v1.1 or v5.0 but got <unknown = v5.0 + 3>",
            id="version-of-the-future",
        ),
        pytest.param(
            "POST",
            body(V2, protoVersion=1, metrics=None),
            400,
            "nil metrics not supported for protocol version v1.0",
            id="version-1-without-metrics",
        ),
        pytest.param(
            "POST",
            body(V7, computeUnit=...),
            400,
            "computeUnit fields must be non-zero: 0 CPU and 0",
            id="no-compute-unit",
        ),
        pytest.param(
            "POST",
            body(V7, computeUnit={"vCPUs": 0, "mem": "1Gi"}, metrics={}),
            400,
            "computeUnit fields must be non-zero: 0 CPU and 1Gi",
            id="the-unit-comes-before-the-metrics",
        ),
        pytest.param("POST", body(V7, metrics={}), 400, "metrics field loadAvg1M is missing", id="empty-metrics"),
        pytest.param(
            "POST",
            body(V2, metrics={"loadAvg1M": 1}),
            400,
            "metrics field loadAvg5M is missing",
            id="version-2-wants-both-loads",
        ),
    ],
)
def test_refused(method: str, sent: bytes, status: int, text: str) -> None:
    found = read_request(method, sent)
    assert isinstance(found, Rejection)
    assert (found.status, found.text) == (status, text)


@pytest.mark.parametrize(
    ("reason", "status", "text"),
    [
        (VmRefusal.POD_NOT_FOUND, 404, "pod not found"),
        (VmRefusal.POD_NOT_PLACED, 404, "pod's node is unknown"),
        (VmRefusal.POD_ON_OTHER_NODE, 403, "pod is not on the agent's node"),
        (VmRefusal.POD_NOT_A_VM, 400, "pod is not associated with a VM"),
        (
            VmRefusal.MIGRATING,
            400,
            "cannot change resources: agent has already been informed that pod is migrating",
        ),
        (VmRefusal.WRITE_FAILED, 500, "failed to write the approval"),
        (VmRefusal.INTERNAL, 500, "request handler panicked"),
    ],
    ids=str,
)
def test_refused_after_a_look_at_the_cluster(reason: VmRefusal, status: int, text: str) -> None:
    assert rejection(reason) == Rejection(reason, status, text)


def test_amounts_that_are_no_whole_units() -> None:
    message = PermitMessage(version=2, pod=ObjectKey("ns", "p"), resources=WireAmounts(3000, 2))
    assert unit_mismatch(message, size(1, 1), GI).text == (
        "requested resources {VCPU:3 Mem:2} do not divide cleanly by previous compute unit {VCPU:1 Mem:1}"
    )


def read(sent: bytes) -> PermitMessage:
    found = read_request("POST", sent)
    assert isinstance(found, PermitMessage)
    return found


def test_slots_become_bytes() -> None:
    assert ledger_units(read(body(V2)), 2 * GI) == MessageAmounts(wanted=size(2, 4), unit=None, last_permit=None)
    assert ledger_units(read(body(V7)), GI) == MessageAmounts(
        wanted=size(0.5, 2), unit=size(0.25, 1), last_permit=size(0.25, 1)
    )


def test_a_unit_that_does_not_divide_by_the_slot_size() -> None:
    found = ledger_units(read(body(V7)), 2 * GI)
    assert found == rejection(VmRefusal.UNIT_NOT_IN_SLOTS, "1Gi is no multiple of 2Gi")
    assert isinstance(found, Rejection)
    assert found.status == 400


@pytest.mark.parametrize(
    ("sent", "answer", "expected"),
    [
        pytest.param(
            V2,
            PermitAnswer(granted=size(2, 2), answered_unit=size(1, 1)),
            {"permit": {"vCPUs": 2, "mem": 2}, "resourceUnit": {"vCPUs": 1, "mem": 1}},
            id="version-2",
        ),
        pytest.param(
            V2,
            PermitAnswer(granted=size(2, 2), answered_unit=size(1, 1), migrate=True),
            {"permit": {"vCPUs": 2, "mem": 2}, "migrate": {}, "resourceUnit": {"vCPUs": 1, "mem": 1}},
            id="version-2-migrating",
        ),
        pytest.param(
            V7,
            PermitAnswer(granted=size(0.5, 2)),
            {"permit": {"vCPUs": "500m", "mem": "2Gi"}},
            id="version-7",
        ),
        pytest.param(
            V7,
            PermitAnswer(granted=VmAmounts(3000, 1536 << 20), migrate=True),
            {"permit": {"vCPUs": 3, "mem": "1536Mi"}, "migrate": {}},
            id="version-7-whole-cores",
        ),
        pytest.param(V7, PermitAnswer(granted=VmAmounts(1, 1023)), {"permit": {"vCPUs": "1m", "mem": 1023}}, id="tiny"),
        pytest.param(
            V7, PermitAnswer(granted=VmAmounts(0, 1025)), {"permit": {"vCPUs": 0, "mem": "1025"}}, id="odd-bytes"
        ),
    ],
)
def test_answers(sent: dict[str, Any], answer: PermitAnswer, expected: dict[str, Any]) -> None:
    message = read(body(sent))
    written = write_answer(message, answer, GI)
    assert json.loads(written) == expected
    assert read_answer(message, written, GI) == answer


WIRE = st.builds(WireAmounts, st.integers(1, 500).map(lambda cores: cores * 1000), st.integers(1, 60_000))
FINE = st.builds(WireAmounts, st.integers(1, 1 << 40), st.integers(1, 1 << 60))
LOAD = st.floats(0, 1e6)
NAME = st.builds(ObjectKey, st.text("abc-", max_size=9), st.text("abc-", max_size=9))


@given(
    st.builds(PermitMessage, version=st.just(2), pod=NAME, resources=WIRE, load1=LOAD, load5=LOAD)
    | st.builds(PermitMessage, version=st.just(2), pod=NAME, resources=WIRE)
    | st.builds(
        PermitMessage,
        version=st.just(7),
        pod=NAME,
        resources=FINE,
        unit=FINE,
        last_permit=st.none() | FINE,
        load1=st.none() | LOAD,
    )
)
def test_what_an_agent_writes_is_what_the_scheduler_reads(message: PermitMessage) -> None:
    assert read_request("POST", write_request(message)) == message


@pytest.mark.parametrize(
    "answer",
    [b"", b"[]", b'{"permit":[]}', b'{"permit":{"vCPUs":-1}}', b'{"permit":{"vCPUs":true}}', b"pod not found"],
)
def test_an_answer_that_is_none(answer: bytes) -> None:
    with pytest.raises(BadAnswer):
        read_answer(read(body(V7)), answer, GI)


def test_every_version_has_a_name() -> None:
    assert [version_name(version) for version in range(1, 9)] == [
        "v1.0", "v1.1", "v2.0", "v2.1", "v3.0", "v4.0", "v5.0", "<unknown = v5.0 + 1>",
    ]  # fmt: skip


# Fuzz: whatever is sent is read as a message or refused with a text.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["1Gi", "250m"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(["protoVersion", "pod", "resources", "computeUnit", "lastPermit", "metrics"])
ALMOST = st.builds(
    lambda message, changes: json.dumps({**message, **changes}).encode(),
    st.sampled_from([V2, V7]),
    st.dictionaries(FIELDS, JSON, max_size=3),
)
NESTED = st.builds(
    lambda message, field, value: json.dumps({**message, field: value}).encode(),
    st.sampled_from([V2, V7]),
    FIELDS,
    st.dictionaries(st.sampled_from(["vCPUs", "mem", "loadAvg1M", "loadAvg5M", "name", "namespace"]), JSON),
)
CUT = st.builds(lambda sent, at: sent[:at], ALMOST, st.integers(0, 300))


def never_crashes(method: str, sent: bytes) -> None:
    found = read_request(method, sent)
    if isinstance(found, Rejection):
        assert found.status in (400, 403, 404)
        assert found.text
        assert "{}" not in found.text
    else:
        assert found.version in (1, 2, 7)
        assert isinstance(ledger_units(found, GI), MessageAmounts | Rejection)
        assert len(write_answer(found, PermitAnswer(granted=size(1, 1), answered_unit=None), GI)) < MAX_BODY


SENT = st.binary(max_size=1100) | ALMOST | NESTED | CUT


@settings(max_examples=500)
@given(st.sampled_from(["POST", "POST", "POST", "GET", ""]), SENT)
def test_fuzz(method: str, sent: bytes) -> None:
    never_crashes(method, sent)


@pytest.mark.full
@settings(max_examples=10_000)
@given(st.sampled_from(["POST", "POST", "POST", "GET", ""]), SENT)
def test_fuzz_10_000(method: str, sent: bytes) -> None:
    never_crashes(method, sent)
