"""VirtualMachines, VM pods and migrations: read to facts, and written so that they read back."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vms import GI, size
from ullage.errors import Unreadable
from ullage.kube.objects.pod import KubePod
from ullage.kube.objects.vm import KubeVirtualMachine, KubeVirtualMachineMigration
from ullage.kube.read.requests import unbounded_containers
from ullage.kube.read.vm import (
    read_amounts,
    read_ordinary_pod,
    read_vm,
    read_vm_migration,
    read_vm_pod,
)
from ullage.kube.write.vm import (
    amounts_text,
    approval_annotations,
    guest_size,
    migration_annotations,
    migration_object,
    need_annotation,
)
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant
from ullage.model.vm import MigrationPhase, OrdinaryPod, Vm, VmAmounts, VmMigration, VmPod
from ullage.testing.builders import a_container, a_pod, with_meta

GUEST: dict[str, Any] = {
    "cpus": {"min": "250m", "use": 2, "max": "8"},
    "memorySlots": {"min": 1, "use": 4, "max": 16},
    "memorySlotSize": "2Gi",
}
META = {"name": "v", "namespace": "team", "uid": "u", "resourceVersion": "7"}


def vm(guest: dict[str, Any], **meta: Any) -> KubeVirtualMachine:
    return msgspec.convert({"metadata": META | meta, "spec": {"guest": guest}}, KubeVirtualMachine)


def pod(raw: dict[str, Any], phase: str = "Running") -> KubePod:
    return msgspec.convert({**raw, "status": {"phase": phase}}, KubePod)


def a_vm_pod_object(**meta: Any) -> dict[str, Any]:
    raw = a_pod("p", requests={"cpu": "100m", "memory": "64Mi"}, nodeName="n1")
    base: dict[str, Any] = {
        "namespace": "team", "uid": "u", "labels": {"vm.neon.tech/name": "v"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return with_meta(raw, **(base | meta))


def test_a_virtual_machine() -> None:
    labels = {"autoscaling.neon.tech/enabled": "true", "autoscaling.neon.tech/auto-migration-enabled": "true"}
    found = read_vm(vm(GUEST, labels=labels, annotations={"gpu.scheduling/vm-last-migration": "1700000000"}))
    assert found == Vm(
        key=ObjectKey("team", "v"),
        uid="u",
        minimum=size(0.25, 2),
        use=size(2, 8),
        maximum=size(8, 32),
        memory_slot=2 * GI,
        scaling=True,
        migratable=True,
        last_migration=Instant(1_700_000_000.0),
        resource_version="7",
    )


def test_a_virtual_machine_without_labels_neither_scales_nor_moves() -> None:
    found = read_vm(vm(GUEST))
    assert (found.scaling, found.migratable, found.last_migration) == (False, False, None)


@pytest.mark.parametrize("text", ["", "soon", "-1", "1e9", "9" * 30])
def test_a_time_that_is_none_is_not_said(text: str) -> None:
    assert read_vm(vm(GUEST, annotations={"gpu.scheduling/vm-last-migration": text})).last_migration is None


@pytest.mark.parametrize(
    ("guest", "named"),
    [
        pytest.param(GUEST | {"cpus": {"min": 1, "use": "two", "max": 4}}, "spec.guest.cpus.use", id="no-quantity"),
        pytest.param(GUEST | {"cpus": {"min": -1, "use": 1, "max": 4}}, "spec.guest.cpus.min", id="negative"),
        pytest.param(GUEST | {"memorySlotSize": "0"}, "spec.guest.memorySlotSize", id="empty-slots"),
        pytest.param(GUEST | {"memorySlotSize": "9e99"}, "spec.guest.memorySlotSize", id="endless-slots"),
    ],
)
def test_a_virtual_machine_that_cannot_be_read_names_its_field(guest: dict[str, Any], named: str) -> None:
    with pytest.raises(Unreadable, match=f"VirtualMachine team/v: {named}: "):
        read_vm(vm(guest))


def test_a_vm_pod() -> None:
    notes = approval_annotations(size(4, 16), size(6, 24), size(0.25, 1))
    found = read_vm_pod(pod(a_vm_pod_object(annotations=notes, resourceVersion="9")))
    assert found == VmPod(
        key=ObjectKey("team", "p"),
        uid="u",
        node="n1",
        vm="v",
        created=Instant(1_767_225_600.0),
        requests=VmAmounts(100, 64 << 20),
        approved=size(4, 16),
        requested=size(6, 24),
        unit=size(0.25, 1),
        resource_version="9",
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"cpu":1}',
        '{"cpu":"x","memory":1}',
        '{"cpu":-1,"memory":1}',
        '{"cpu":1,"memory":1e999}',
    ],
)
def test_an_approval_that_cannot_be_read_is_none(text: str) -> None:
    assert read_amounts(text) is None


@pytest.mark.parametrize(
    ("owner", "incoming"),
    [
        pytest.param({"kind": "VirtualMachineMigration", "controller": True}, True, id="target"),
        pytest.param({"kind": "VirtualMachineMigration"}, False, id="source"),
        pytest.param({"kind": "VirtualMachine", "controller": True}, False, id="at-rest"),
    ],
)
def test_the_target_of_a_migration_is_owned_by_it(owner: dict[str, Any], incoming: bool) -> None:
    found = read_vm_pod(pod(a_vm_pod_object(ownerReferences=[owner])))
    assert found is not None
    assert found.incoming is incoming


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_over_holds_nothing(phase: str) -> None:
    assert read_vm_pod(pod(a_vm_pod_object(), phase)) is None
    assert read_ordinary_pod(pod(a_vm_pod_object(labels={}), phase)) is None


def test_a_pod_is_one_or_the_other() -> None:
    assert read_ordinary_pod(pod(a_vm_pod_object())) is None
    assert read_vm_pod(pod(a_vm_pod_object(labels={}))) is None


def test_ordinary_pods_count_by_requests_and_by_limits_without_them() -> None:
    raw = a_pod("p", nodeName="n1")
    raw["metadata"]["namespace"] = "team"
    raw["spec"]["containers"] = [
        a_container("a", requests={"cpu": "1"}, limits={"cpu": "4", "memory": "1Gi"}),
        a_container("b", limits={"cpu": "500m", "memory": "1"}),
    ]
    assert read_ordinary_pod(pod(raw)) == OrdinaryPod(
        key=ObjectKey("team", "p"), node="n1", amounts=VmAmounts(1500, GI + 1)
    )


@pytest.mark.parametrize(
    ("containers", "whole", "unbounded"),
    [
        pytest.param([a_container("a", requests={"cpu": "1", "memory": "1Gi"})], None, (), id="requests"),
        pytest.param([a_container("a", limits={"cpu": "1", "memory": "1Gi"})], None, (), id="limits"),
        pytest.param([a_container("a", requests={"cpu": "1"}, limits={"memory": "1Gi"})], None, (), id="one-of-each"),
        pytest.param([a_container("a"), a_container("b", requests={"cpu": "1"})], None, ("a", "b"), id="neither"),
        pytest.param([a_container("a")], {"requests": {"cpu": "1", "memory": "1Gi"}}, (), id="the-pod-says-it"),
        pytest.param([a_container("a")], {"limits": {"cpu": "1"}}, ("a",), id="the-pod-says-half-of-it"),
    ],
)
def test_unbounded_containers(
    containers: list[dict[str, Any]], whole: dict[str, Any] | None, unbounded: tuple[str, ...]
) -> None:
    raw = a_pod("p")
    raw["spec"]["containers"] = containers
    if whole is not None:
        raw["spec"]["resources"] = whole
    assert unbounded_containers(pod(raw).spec) == unbounded


def migration(raw: dict[str, Any]) -> VmMigration:
    return read_vm_migration(msgspec.convert(raw, KubeVirtualMachineMigration))


def test_a_migration_of_ours_reads_back() -> None:
    raw = migration_object("team", "ullage-p", "v")
    raw["metadata"]["uid"] = "m"
    raw["status"] = {"phase": "Running", "sourcePodName": "p"}
    assert migration(raw) == VmMigration(
        key=ObjectKey("team", "ullage-p"), uid="m", vm="v", phase=MigrationPhase.RUNNING, source_pod="p", ours=True
    )


def test_a_migration_of_somebody_else() -> None:
    raw = {"metadata": {"name": "by-hand", "namespace": "team"}, "spec": {"vmName": "v"}}
    found = migration(raw)
    assert (found.ours, found.phase) == (False, MigrationPhase.NEW)


def test_a_phase_that_is_none() -> None:
    with pytest.raises(Unreadable, match=r"VirtualMachineMigration team/m: status\.phase: 'Stuck' is not a phase"):
        migration(
            {"metadata": {"name": "m", "namespace": "team"}, "spec": {"vmName": "v"}, "status": {"phase": "Stuck"}}
        )


@given(st.builds(VmAmounts, st.integers(0, 1 << 40), st.integers(0, 1 << 60)))
def test_amounts_read_back(amounts: VmAmounts) -> None:
    assert read_amounts(amounts_text(amounts)) == amounts


def test_what_is_written() -> None:
    assert amounts_text(size(0.25, 1.5)) == '{"cpu":"250m","memory":"1536Mi"}'
    assert approval_annotations(size(1, 4)) == {"gpu.scheduling/vm-approved": '{"cpu":"1","memory":"4Gi"}'}
    need = {"gpu.scheduling/vm-needs-node": None}
    assert migration_annotations(Instant(12.9)) == {"gpu.scheduling/vm-last-migration": "12", **need}
    assert (need_annotation(None), need_annotation(Instant(7.5))) == (need, {"gpu.scheduling/vm-needs-node": "7"})
    assert guest_size(size(2.5, 8), 2 * GI) == {
        "spec": {"guest": {"cpus": {"use": "2500m"}, "memorySlots": {"use": 4}}}
    }
