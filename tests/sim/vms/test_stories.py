"""The simulated VM controller with simulated kubelets, in virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.sim.controllers.stage import Stage, elapsed, on_stage, until
from tests.vms import GI, size
from ullage.kube.client.api import Binding, MergePatch
from ullage.kube.client.resources import NODES, PODS, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.catalog import VM_KINDS
from ullage.kube.crds.install import install
from ullage.kube.objects.vm import KubeVirtualMachine
from ullage.kube.read.vm import read_vm_migration, read_vm_pod
from ullage.kube.write.vm import guest_size, migration_object
from ullage.model.vm import MigrationPhase, VmPod
from ullage.sim.apiserver import InMemoryTransport
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.kubelet.timings import INSTANT
from ullage.sim.virtual_time import loop_clock
from ullage.sim.vms.controller import HypervisorTimings
from ullage.sim.vms.loop import simulated_vm_controller
from ullage.testing.builders import a_node, a_virtual_machine

pytestmark = pytest.mark.story
NS = "default"


@asynccontextmanager
async def vms_at_work(stage: Stage, failures: float = 0.0) -> AsyncIterator[None]:
    """Two nodes, and a VM that runs on the first."""
    await install(stage.api, VM_KINDS)
    for name in ("node-a", "node-b"):
        await stage.api.create(NODES, a_node(name))
    api = RestApi(InMemoryTransport(stage.server, user="vms", network=stage.network), rng=random.Random(4))
    timings = HypervisorTimings(hotplug=2.0, migration=20.0)
    async with (
        stage.actors(ControllerManagerSettings(INSTANT)),
        simulated_vm_controller(api, loop_clock(), timings, migration_failures=failures, seed=1),
    ):
        await stage.api.create(VIRTUAL_MACHINES.whole(), a_virtual_machine("v", schedulerName="nobody"), NS)
        await bind(stage, "v-0", "node-a")
        await phase_is(stage, "Running")
        yield


async def bind(stage: Stage, pod: str, node: str) -> None:
    async def is_there() -> bool:
        return pod in {one["metadata"]["name"] for one in await stage.pods()}

    await until(is_there)
    await stage.api.bind(pod, NS, Binding(node))


async def the_vm(stage: Stage) -> KubeVirtualMachine:
    return await stage.api.get(VIRTUAL_MACHINES, "v", NS)


async def phase_is(stage: Stage, phase: str) -> float:
    async def so() -> bool:
        return (await the_vm(stage)).status.phase == phase

    return await until(so)


async def migrate(stage: Stage) -> MigrationPhase:
    """Start a migration, bind its target, and wait for the end."""
    await stage.api.create(VIRTUAL_MACHINE_MIGRATIONS.whole(), migration_object(NS, "m", "v"), NS)
    await phase_is(stage, "PreMigrating")
    await bind(stage, "m-target", "node-b")
    await phase_is(stage, "Migrating")

    async def over() -> bool:
        return read_vm_migration(await stage.api.get(VIRTUAL_MACHINE_MIGRATIONS, "m", NS)).phase.over

    await until(over)
    return read_vm_migration(await stage.api.get(VIRTUAL_MACHINE_MIGRATIONS, "m", NS)).phase


async def vm_pods(stage: Stage) -> list[VmPod]:
    pods = [read_vm_pod(await stage.api.get(PODS, one["metadata"]["name"], NS)) for one in await stage.pods()]
    return [pod for pod in pods if pod is not None]


def test_a_vm_gets_a_pod_of_its_own_and_runs() -> None:
    async def story(stage: Stage) -> None:
        async with vms_at_work(stage):
            vm = await the_vm(stage)
            assert (vm.status.pod_name, vm.status.node) == ("v-0", "node-a")
            (pod,) = await stage.pods()
            assert pod["metadata"]["labels"]["vm.neon.tech/name"] == "v"
            assert pod["metadata"]["ownerReferences"][0]["kind"] == "VirtualMachine"
            assert pod["spec"]["schedulerName"] == "nobody"

    on_stage(story)


def test_a_pod_that_is_gone_is_made_again() -> None:
    async def story(stage: Stage) -> None:
        async with vms_at_work(stage):
            await stage.api.delete(PODS, "v-0", NS)
            await phase_is(stage, "Pending")
            (pod,) = [one for one in await stage.pods() if "deletionTimestamp" not in one["metadata"]]
            await bind(stage, pod["metadata"]["name"], "node-b")
            await phase_is(stage, "Running")
            assert (await the_vm(stage)).status.node == "node-b"

    on_stage(story)


def test_hot_plug_lags() -> None:
    async def story(stage: Stage) -> None:
        async with vms_at_work(stage):
            await asyncio.sleep(5)
            began = elapsed()
            await stage.api.patch(VIRTUAL_MACHINES.whole(), "v", MergePatch(guest_size(size(2.5, 8), GI)), NS)

            async def plugged() -> bool:
                status = (await the_vm(stage)).status
                return (status.cpus, status.memory_size) == ("2500m", "8Gi")

            assert 2.0 <= await until(plugged) - began <= 4.0

    on_stage(story)


def test_a_migration_takes_its_time_and_leaves_one_pod() -> None:
    async def story(stage: Stage) -> None:
        async with vms_at_work(stage):
            began = elapsed()
            assert await migrate(stage) is MigrationPhase.SUCCEEDED
            assert 20.0 <= elapsed() - began <= 30.0
            await asyncio.sleep(40)
            vm = await the_vm(stage)
            assert (vm.status.phase, vm.status.pod_name, vm.status.node) == ("Running", "m-target", "node-b")
            (pod,) = await vm_pods(stage)
            assert (pod.key.name, pod.node, pod.incoming) == ("m-target", "node-b", False)

    on_stage(story)


def test_a_failed_migration_leaves_the_vm_where_it_is() -> None:
    async def story(stage: Stage) -> None:
        async with vms_at_work(stage, failures=1.0):
            assert await migrate(stage) is MigrationPhase.FAILED
            await asyncio.sleep(40)
            vm = await the_vm(stage)
            assert (vm.status.phase, vm.status.pod_name, vm.status.node) == ("Running", "v-0", "node-a")
            (pod,) = await vm_pods(stage)
            assert pod.key.name == "v-0"

    on_stage(story)


def test_the_target_is_owned_by_its_migration_and_kept_off_the_source() -> None:
    async def story(stage: Stage) -> None:
        async with vms_at_work(stage):
            await stage.api.create(VIRTUAL_MACHINE_MIGRATIONS.whole(), migration_object(NS, "m", "v"), NS)
            await bind(stage, "m-target", "node-b")
            target = next(pod for pod in await vm_pods(stage) if pod.key.name == "m-target")
            assert target.incoming
            raw = await stage.api.get(PODS.whole(), "m-target", NS)
            affinity = raw["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            (term,) = affinity["nodeSelectorTerms"]
            assert term["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": ["node-a"]}]

    on_stage(story)


def test_a_migration_whose_vm_goes_fails() -> None:
    async def story(stage: Stage) -> None:
        async with vms_at_work(stage):
            await stage.api.create(VIRTUAL_MACHINE_MIGRATIONS.whole(), migration_object(NS, "m", "v"), NS)
            await phase_is(stage, "PreMigrating")
            await stage.api.delete(VIRTUAL_MACHINES, "v", NS)

            async def failed() -> bool:
                found = await stage.api.get(VIRTUAL_MACHINE_MIGRATIONS, "m", NS)
                return found.status.phase == "Failed"

            await until(failed)

    on_stage(story)
