"""VirtualMachine and VirtualMachineMigration on both API servers, by the definitions of tests and the demo."""

from typing import Any

import pytest

from tests.vms import GI, size
from ullage.errors import Invalid
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.kube.crds.catalog import VM_KINDS
from ullage.kube.crds.install import install
from ullage.kube.read.vm import read_vm, read_vm_migration
from ullage.kube.write.vm import guest_size, migration_object
from ullage.model.vm import MigrationPhase
from ullage.testing.builders import a_virtual_machine

GUEST = {"cpus": {"min": "250m", "use": 1, "max": 4}, "memorySlots": {"min": 1, "use": 4, "max": 16}}
VM: Resource[JsonObject] = VIRTUAL_MACHINES.whole()
MIGRATION: Resource[JsonObject] = VIRTUAL_MACHINE_MIGRATIONS.whole()


async def test_a_virtual_machine_is_read_resized_and_keeps_what_we_do_not_know(api: KubeApi, ns: str) -> None:
    await install(api, VM_KINDS)
    body = a_virtual_machine("v", guest=GUEST | {"rootDisk": {"image": "example.com/vm:1"}})
    body["spec"]["enableSSH"] = False
    await api.create(VM, body, ns)
    vm = read_vm(await api.get(VIRTUAL_MACHINES, "v", ns))
    assert (vm.minimum, vm.use, vm.maximum) == (size(0.25, 1), size(1, 4), size(4, 16))
    assert vm.memory_slot == GI, "the default of the kind"
    patched = await api.patch(VM, "v", MergePatch(guest_size(size(1.5, 6), GI)), ns)
    assert patched["spec"]["guest"]["rootDisk"] == {"image": "example.com/vm:1"}
    assert patched["spec"]["enableSSH"] is False
    assert read_vm(await api.get(VIRTUAL_MACHINES, "v", ns)).use == size(1.5, 6)


@pytest.mark.parametrize(
    ("guest", "field"),
    [
        pytest.param({"memorySlots": {"min": 4, "use": 2, "max": 8}}, "spec.guest.memorySlots.use", id="use-below-min"),
        pytest.param({"memorySlots": {"min": 1, "use": 9, "max": 8}}, "spec.guest.memorySlots.use", id="use-above-max"),
        pytest.param({"memorySlots": {"min": 1, "use": 1, "max": 513}}, "spec.guest.memorySlots.max", id="too-many"),
        pytest.param({"cpus": {"min": 1, "use": "two", "max": 4}}, "spec.guest.cpus.use", id="no-quantity"),
        pytest.param({"cpus": {"min": 1, "max": 4}}, "spec.guest.cpus.use", id="no-use"),
    ],
)
async def test_a_bad_virtual_machine_is_refused_by_its_field(
    api: KubeApi, ns: str, guest: dict[str, Any], field: str
) -> None:
    await install(api, VM_KINDS)
    with pytest.raises(Invalid) as refused:
        await api.create(VM, a_virtual_machine("v", guest=GUEST | guest), ns)
    assert field in {cause.field for cause in refused.value.causes}


async def test_a_migration_goes_through_its_phases(api: KubeApi, ns: str) -> None:
    await install(api, VM_KINDS)
    made = await api.create(MIGRATION, migration_object(ns, "ullage-p", "v"), ns)
    assert made["spec"]["completionTimeout"] == 3600
    for phase in MigrationPhase:
        status = MergePatch({"status": {"phase": phase.value, "sourcePodName": "p"}})
        await api.patch(MIGRATION, "ullage-p", status, ns, subresource="status")
        found = read_vm_migration(await api.get(VIRTUAL_MACHINE_MIGRATIONS, "ullage-p", ns))
        assert (found.phase, found.source_pod, found.ours, found.vm) == (phase, "p", True, "v")
