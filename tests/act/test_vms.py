"""Intents of the VM system on both API servers: each may be performed twice, and none hits another object."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.vms import size
from ullage.act.vms import VmActuator
from ullage.errors import NotFound, ServerFailure
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import PODS, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.kube.crds.catalog import VM_KINDS
from ullage.kube.crds.install import install
from ullage.kube.read.vm import read_vm, read_vm_migration, read_vm_pod
from ullage.model.intents import ApproveVm, DeleteMigration, StartMigration
from ullage.model.outcomes import ApprovalWritten, MigrationDeleted, MigrationStarted, VmIntentRefused, VmIntentUnknown
from ullage.model.units import Instant
from ullage.model.vm import MigrationPhase, Vm, VmPod
from ullage.testing.builders import a_pod, with_meta

VM: Resource[JsonObject] = VIRTUAL_MACHINES.whole()
MIGRATION: Resource[JsonObject] = VIRTUAL_MACHINE_MIGRATIONS.whole()


@pytest.fixture
def actuator(api: KubeApi) -> VmActuator:
    return VmActuator(api)


async def running(api: KubeApi, ns: str, name: str = "p") -> VmPod:
    body = with_meta(a_pod(name, nodeName="n1"), labels={"vm.neon.tech/name": "v"})
    found = read_vm_pod(await api.create(PODS, body, ns))
    assert found is not None
    return found


async def a_machine(api: KubeApi, ns: str) -> Vm:
    await install(api, VM_KINDS)
    guest = {"cpus": {"min": 1, "use": 1, "max": 4}, "memorySlots": {"min": 1, "use": 4, "max": 16}}
    await api.create(VM, {"metadata": {"name": "v"}, "spec": {"guest": guest}}, ns)
    return read_vm(await api.get(VIRTUAL_MACHINES, "v", ns))


def approving(pod: VmPod, **other: Any) -> ApproveVm:
    values: dict[str, Any] = {"approved": size(4, 16), "requested": size(6, 24), "unit": size(1, 4)}
    return ApproveVm(pod=pod, why="a test", **(values | other))


async def test_an_approval_is_written_on_the_pod_it_was_decided_on(api: KubeApi, ns: str, actuator: VmActuator) -> None:
    outcome = await actuator.perform(approving(await running(api, ns)))
    assert isinstance(outcome, ApprovalWritten)
    now = read_vm_pod(await api.get(PODS, "p", ns))
    assert now == outcome.pod
    assert now is not None
    assert (now.approved, now.requested, now.unit) == (size(4, 16), size(6, 24), size(1, 4))


async def test_an_approval_on_a_pod_that_has_changed_is_refused(api: KubeApi, ns: str, actuator: VmActuator) -> None:
    pod = await running(api, ns)
    await api.patch(PODS, "p", MergePatch({"metadata": {"annotations": {"other": "1"}}}), ns)
    outcome = await actuator.perform(approving(pod))
    assert isinstance(outcome, VmIntentRefused)
    now = read_vm_pod(await api.get(PODS, "p", ns))
    assert now is not None
    assert now.approved is None


async def test_an_approval_that_is_there_already_is_written(api: KubeApi, ns: str, actuator: VmActuator) -> None:
    intent = approving(await running(api, ns))
    await actuator.perform(intent)
    assert isinstance(await actuator.perform(intent), ApprovalWritten)


async def test_an_approval_of_a_pod_that_is_gone_is_refused(api: KubeApi, ns: str, actuator: VmActuator) -> None:
    pod = await running(api, ns)
    intent = approving(msgspec.structs.replace(pod, key=pod.key._replace(name="gone")))
    assert isinstance(await actuator.perform(intent), VmIntentRefused)


def starting(vm: Vm, pod: VmPod) -> StartMigration:
    return StartMigration(vm=vm, pod=pod, name="ullage-p", at=Instant(1_700_000_000.5), why="a test")


async def test_a_migration_is_noted_on_the_vm_and_created_once(api: KubeApi, ns: str, actuator: VmActuator) -> None:
    intent = starting(await a_machine(api, ns), await running(api, ns))
    for _ in range(2):
        outcome = await actuator.perform(intent)
        assert isinstance(outcome, MigrationStarted)
        assert (outcome.migration.vm, outcome.migration.ours) == ("v", True)
    assert read_vm(await api.get(VIRTUAL_MACHINES, "v", ns)).last_migration == 1_700_000_000.0
    assert len((await api.list(VIRTUAL_MACHINE_MIGRATIONS, ns)).items) == 1


async def test_a_migration_of_that_name_that_is_over_is_not_this_one(
    api: KubeApi, ns: str, actuator: VmActuator
) -> None:
    intent = starting(await a_machine(api, ns), await running(api, ns))
    await actuator.perform(intent)
    over = MergePatch({"status": {"phase": MigrationPhase.FAILED.value}})
    await api.patch(MIGRATION, "ullage-p", over, ns, subresource="status")
    assert isinstance(await actuator.perform(intent), VmIntentRefused)


async def test_another_vm_of_that_name_is_left_alone(api: KubeApi, ns: str, actuator: VmActuator) -> None:
    vm = await a_machine(api, ns)
    intent = starting(msgspec.structs.replace(vm, uid="00000000-0000-4000-8000-000000000000"), await running(api, ns))
    assert isinstance(await actuator.perform(intent), VmIntentRefused)
    assert read_vm(await api.get(VIRTUAL_MACHINES, "v", ns)).last_migration is None
    with pytest.raises(NotFound):
        await api.get(VIRTUAL_MACHINE_MIGRATIONS, "ullage-p", ns)


async def test_a_migration_that_is_over_is_deleted_and_another_of_its_name_is_not(
    api: KubeApi, ns: str, actuator: VmActuator
) -> None:
    await actuator.perform(starting(await a_machine(api, ns), await running(api, ns)))
    migration = read_vm_migration(await api.get(VIRTUAL_MACHINE_MIGRATIONS, "ullage-p", ns))
    intent = DeleteMigration(migration=migration, why="a test")
    earlier = msgspec.structs.replace(migration, uid="00000000-0000-4000-8000-000000000000")
    assert await actuator.perform(replace(intent, migration=earlier)) == MigrationDeleted(
        replace(intent, migration=earlier)
    )
    await api.get(VIRTUAL_MACHINE_MIGRATIONS, "ullage-p", ns)
    for _ in range(2):
        assert await actuator.perform(intent) == MigrationDeleted(intent)
    with pytest.raises(NotFound):
        await api.get(VIRTUAL_MACHINE_MIGRATIONS, "ullage-p", ns)


async def test_a_server_that_breaks_leaves_the_outcome_open(
    api: KubeApi, ns: str, actuator: VmActuator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = await running(api, ns)

    async def breaks(*_: object, **__: object) -> None:
        raise ServerFailure("etcd has no leader")

    monkeypatch.setattr(api, "patch", breaks)
    outcome = await actuator.perform(approving(pod))
    assert outcome == VmIntentUnknown(approving(pod), "etcd has no leader")
