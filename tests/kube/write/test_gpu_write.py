"""Statuses of our own kinds as they are written: always whole, and read back as they were meant."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ullage.clock import Instant
from ullage.kube.client.api import MergePatch
from ullage.kube.client.json_codec import encode, to_json
from ullage.kube.objects.gpu import GpuClaim, GpuClaimSpec, GpuClaimStatus, GpuNodeReport, GpuNodeStatus, GpuQuotaStatus
from ullage.kube.objects.meta import Condition, ObjectMeta
from ullage.kube.read.gpu import read_bytes, read_claim, read_inventory
from ullage.kube.write.gpu import (
    ClaimStatusFields,
    ConditionSpec,
    allocated_text,
    apply_status,
    claim_copy,
    claim_status,
    known_claim,
    node_report,
    patch_status,
    quota_status,
    read_allocated,
    with_aspect,
    write_bytes,
)
from ullage.model.claim import ClaimPhase
from ullage.model.device import MOST_DEVICES, Device, DeviceHealth, GpuNodeKind, Inventory, MigInstance
from ullage.model.fact_event import ObjectKey
from ullage.model.quota import QuotaUsage

NOW, LATER = Instant(60.0), Instant(120.0)
BOUND = ClaimStatusFields(phase=ClaimPhase.BOUND, node="node-a", gpu_ids=(3, 1), message="placed")
META = ObjectMeta(name="c", namespace="n", uid="u", resource_version="7")


def test_a_bound_claim_names_what_it_holds() -> None:
    assert to_json(claim_status(GpuClaimStatus(), BOUND, generation=2, now=NOW)) == {
        "phase": "Bound",
        "nodeName": "node-a",
        "gpuIds": [1, 3],
        "allocated": "node-a:1,3",
        "message": "placed",
        "observedGeneration": 2,
        "conditions": [
            {
                "type": "Allocated",
                "status": "True",
                "reason": "Bound",
                "message": "placed",
                "observedGeneration": 2,
                "lastTransitionTime": "1970-01-01T00:01:00Z",
            }
        ],
    }


@pytest.mark.parametrize("phase", [ClaimPhase.PENDING, ClaimPhase.FAILED])
def test_a_claim_that_holds_nothing_names_nothing(phase: ClaimPhase) -> None:
    held = claim_status(GpuClaimStatus(), BOUND, generation=1, now=NOW)
    refused = ClaimStatusFields(phase=phase, node="node-a", gpu_ids=(1,), reason="TooFewGpus")
    status = claim_status(held, refused, generation=1, now=LATER)
    assert (status.node_name, status.gpu_ids, status.allocated, status.message) == ("", (), "", "")
    (condition,) = status.conditions
    assert (condition.status, condition.reason) == ("False", "TooFewGpus")
    assert condition.last_transition_time == "1970-01-01T00:02:00Z"


def test_where_a_device_plugin_chooses_only_the_node_is_named() -> None:
    counted = ClaimStatusFields(phase=ClaimPhase.BOUND, node="node-a")
    status = claim_status(GpuClaimStatus(), counted, generation=1, now=NOW)
    assert (status.node_name, status.gpu_ids, status.allocated) == ("node-a", (), "")


OUTCOMES = [
    pytest.param(BOUND, id="bound"),
    pytest.param(ClaimStatusFields(phase=ClaimPhase.BOUND, node="node-a", reason="Bound"), id="by-count"),
    pytest.param(ClaimStatusFields(phase=ClaimPhase.FAILED, reason="NodeTooSmall", message="no"), id="failed"),
]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_status_we_wrote_is_known_from_the_facts_alone(outcome: ClaimStatusFields) -> None:
    status = claim_status(GpuClaimStatus(), outcome, generation=2, now=NOW)
    raw = GpuClaim(metadata=META, spec=GpuClaimSpec(), status=status)
    claim = read_claim(raw)
    assert not claim.opaque
    assert (claim.word, claim.observed) == (outcome.reason or "Bound", 2)
    known = known_claim(claim)
    assert known is not None
    assert (known.metadata, known.status) == (META, status)


def test_a_status_nobody_wrote_is_known_too() -> None:
    known = known_claim(read_claim(GpuClaim(metadata=META, spec=GpuClaimSpec())))
    assert known is not None
    assert known.status == GpuClaimStatus()


ZEALOUS = Condition(type="Zealous", status="True", reason="Yes", last_transition_time="1970-01-01T00:00:01Z")


def test_conditions_of_others_have_to_be_read_again_and_do_not_hide_ours() -> None:
    status = claim_status(GpuClaimStatus(conditions=(ZEALOUS,)), BOUND, generation=2, now=NOW)
    claim = read_claim(GpuClaim(metadata=META, spec=GpuClaimSpec(), status=status))
    assert (claim.word, claim.message) == ("Bound", "placed")
    assert known_claim(claim) is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"allocated": "node-b:7"}, id="allocated-elsewhere"),
        pytest.param({"phase": "Pending"}, id="pending-with-gpus"),
        pytest.param({"message": "something else"}, id="two-messages"),
        pytest.param({"conditions": (ZEALOUS,)}, id="no-reason"),
    ],
)
def test_a_status_that_contradicts_itself_gives_no_reason(change: dict[str, Any]) -> None:
    status = replace(claim_status(GpuClaimStatus(), BOUND, generation=2, now=NOW), **change)
    claim = read_claim(GpuClaim(metadata=META, spec=GpuClaimSpec(), status=status))
    assert claim.word == ""
    assert known_claim(claim) is None


def test_a_template_too_long_for_a_label_is_annotated_all_the_same() -> None:
    name = "t" * 64
    meta = claim_copy(name, {}, ObjectKey("n", "p"), "u")["metadata"]
    assert "labels" not in meta
    assert meta["annotations"] == {"gpu.scheduling/template": name}


def test_a_conditions_time_moves_only_with_its_status() -> None:
    other = Condition(type="Zealous", status="True", reason="Yes", last_transition_time="1970-01-01T00:00:01Z")
    once = with_aspect((other,), ConditionSpec("Ready", True, "Fine"), generation=1, now=NOW)
    again = with_aspect(once, ConditionSpec("Ready", True, "StillFine", "really"), generation=2, now=LATER)
    unknown = with_aspect(again, ConditionSpec("Ready", None, "Lost"), generation=2, now=LATER)
    assert [one.type for one in again] == ["Ready", "Zealous"]
    assert (again[0].reason, again[0].observed_generation) == ("StillFine", 2)
    assert again[0].last_transition_time == "1970-01-01T00:01:00Z"
    assert (unknown[0].status, unknown[0].last_transition_time) == ("Unknown", "1970-01-01T00:02:00Z")
    assert unknown[1] == other


def test_a_patch_takes_away_what_is_no_longer_said() -> None:
    held = claim_status(GpuClaimStatus(), BOUND, generation=1, now=NOW)
    freed = claim_status(held, ClaimStatusFields(phase=ClaimPhase.PENDING), generation=1, now=LATER)
    patch = patch_status(META, held, freed)
    assert isinstance(patch, MergePatch)
    assert patch.body["metadata"] == {"name": "c", "namespace": "n", "resourceVersion": "7"}
    gone = {"nodeName": None, "gpuIds": None, "allocated": None, "message": None}
    assert patch.body["status"] == gone | {"phase": "Pending", "conditions": to_json(freed.conditions)}


def test_nothing_changed_is_no_patch() -> None:
    held = claim_status(GpuClaimStatus(), BOUND, generation=1, now=NOW)
    assert patch_status(META, held, claim_status(held, BOUND, generation=1, now=LATER)) is None


def test_a_write_is_conditional_only_if_a_version_is_known() -> None:
    pending, unversioned = GpuClaimStatus(phase="Pending"), ObjectMeta(name="c", namespace="n", uid="u")
    known = {"name": "c", "namespace": "n"}
    assert apply_status(META, pending, "scheduler").body["metadata"] == known | {"resourceVersion": "7"}
    assert apply_status(unversioned, pending, "scheduler").body == {"metadata": known, "status": {"phase": "Pending"}}


def test_a_quota_says_what_is_used_even_if_it_is_nothing() -> None:
    fine = ConditionSpec("Exhausted", False, "WithinLimits")
    status = quota_status(GpuQuotaStatus(), QuotaUsage(by_model=(("H100", 1),)), fine, generation=1, now=NOW)
    assert to_json(status)["used"] == {"gpus": 0, "byModel": {"H100": 1}, "sharesMilli": 0}


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        pytest.param(0, "0", id="nothing"),
        pytest.param(80 << 30, "80Gi", id="the-largest-unit-that-is-exact"),
        pytest.param(81559 << 20, "81559Mi", id="as-an-h100-reports"),
        pytest.param(1000, "1000", id="plain-bytes"),
    ],
)
def test_bytes_are_written_exactly(amount: int, text: str) -> None:
    assert write_bytes(amount) == text
    assert read_bytes(text) == amount


@given(st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True), st.sets(st.integers(0, 15), min_size=1))
def test_an_allocation_in_one_word_is_read_back(node: str, ids: set[int]) -> None:
    assert read_allocated(allocated_text(node, ids)) == (node, tuple(sorted(ids)))


@pytest.mark.parametrize("text", ["", "node-a", "node-a:", ":0", "node-a:0,", "node-a:x", "node-a:-1"])
def test_what_is_no_allocation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an allocation"):
        read_allocated(text)


words = st.text("abcGPU-01", min_size=1, max_size=12)
ids = st.integers(0, MOST_DEVICES - 1)
several_ids = st.sets(ids).map(lambda found: tuple(sorted(found)))
slices = st.builds(MigInstance, uuid=words, profile=words, memory=st.integers(0, 1 << 40))
devices = st.builds(
    Device,
    id=ids,
    uuid=words,
    model=words,
    memory=st.integers(0, 1 << 40),
    health=st.sampled_from(DeviceHealth),
    island=st.just("") | words,
    bandwidth=st.integers(0, 1800),
    peers=several_ids,
    in_use_by=st.lists(words, max_size=2).map(tuple),
    mig=st.lists(slices, max_size=2, unique_by=lambda one: one.uuid).map(tuple),
)
inventories = st.builds(
    Inventory,
    node=st.just("node-a"),
    reported_at=st.integers(0, 1 << 32).map(float),
    devices=st.lists(devices, unique_by=lambda one: one.id).map(lambda all_: tuple(sorted(all_, key=lambda d: d.id))),
    kind=st.sampled_from(GpuNodeKind),
)


@given(inventories)
@settings(max_examples=40)
def test_an_inventory_is_read_back_as_it_was_written(inventory: Inventory) -> None:
    report = node_report(inventory)
    assert report.total == len(inventory.devices)
    body = {"metadata": {"name": "node-a"}, "spec": {"nodeName": "node-a"}, "status": to_json(report)}
    raw = msgspec.json.decode(encode(body), type=GpuNodeStatus)
    assert raw.status == report
    assert read_inventory(raw) == msgspec.structs.replace(inventory, dated=inventory.reported_at)


def test_a_node_without_healthy_gpus_says_so() -> None:
    assert to_json(node_report(Inventory(node="n", reported_at=Instant(60.0), devices=()))) == {
        "total": 0,
        "healthy": 0,
        "observedAt": "1970-01-01T00:01:00Z",
        "kind": "Leased",
    }
    assert GpuNodeReport().healthy is None
