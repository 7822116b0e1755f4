"""A node under pressure, on the simulated API server with simulated kubelets and hypervisors: VMs move, and rest."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.sim.controllers.stage import Stage, elapsed, on_stage
from tests.vms import node_config, size, vm_config
from ullage.control.vms.loop import VmLoop
from ullage.decide.placement.vm_pods import first_approval
from ullage.decide.vms.core import VmCore, VmRules
from ullage.decide.vms.migration import MigrationRules
from ullage.decide.vms.reserve import room_for_vm
from ullage.kube.client.api import Binding, KubeApi
from ullage.kube.client.resources import NODES, PODS, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.catalog import VM_KINDS
from ullage.kube.crds.install import install
from ullage.kube.objects.vm import KubeVirtualMachineMigration
from ullage.kube.read.vm import read_vm, read_vm_pod
from ullage.kube.write.vm import approval_annotations
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Seconds
from ullage.model.vm import VM_NAME, VmPod
from ullage.runtime import Wakeup
from ullage.sim.apiserver import InMemoryTransport
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.kubelet.timings import INSTANT
from ullage.sim.virtual_time import loop_clock
from ullage.sim.vms.controller import HypervisorTimings
from ullage.sim.vms.loop import simulated_vm_controller
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.builders import a_node
from ullage.watch.informer import Informer, run_all, wait_all_synced
from ullage.watch.sources import sources_served

pytestmark = pytest.mark.story
NS = "default"
RULES = VmRules(sustained=Seconds(10.0), migration=MigrationRules(per_node=1, cooldown=Seconds(600.0)))


async def bind_pods(api: KubeApi, core: VmCore) -> None:
    """Stand-in for the scheduler: VM pods are bound where the ledger has room, each with its first approval."""
    while True:
        for pod in (await api.list(PODS, NS)).items:
            vm = core.ledger.vm(ObjectKey(NS, pod.metadata.labels.get(VM_NAME, "")))
            if pod.spec.node_name or vm is None:
                continue
            node = next((node for node in core.ledger.nodes() if room_for_vm(core.ledger, node, vm)), None)
            if node is not None:
                notes = approval_annotations(first_approval(core.ledger, vm))
                await api.bind(pod.metadata.name, NS, Binding(node, annotations=notes))
                await asyncio.sleep(0.2)
        await asyncio.sleep(1)


@asynccontextmanager
async def at_work(stage: Stage, failures: float = 0.0) -> AsyncIterator[VmCore]:
    """Two nodes of 8 cores: 7 may be reserved, above 5 there is pressure. VMs come on the first node with room."""
    await install(stage.api, VM_KINDS)
    for name in ("node-a", "node-b"):
        await stage.api.create(NODES, a_node(name, allocatable={"cpu": "8", "memory": "32Gi"}))
    api = RestApi(
        InMemoryTransport(stage.server, user="scheduler", network=stage.network),
        rng=random.Random(4),
    )
    changed = Wakeup()
    snapshot = ClusterSnapshot(vms_changed=changed.set)
    snapshot.vms.ledger.configure(vm_config(node_config(watermark=0.8)))
    core = VmCore(snapshot.vms.ledger, RULES)
    loop = VmLoop(core, api, loop_clock(), changed)
    sources = [
        Informer(api, source, snapshot.apply, rng=random.Random(5), clock=loop_clock())
        for source in await sources_served(api)
    ]
    async with (
        stage.actors(ControllerManagerSettings(INSTANT)),
        simulated_vm_controller(
            api, loop_clock(), HypervisorTimings(migration=20.0), migration_failures=failures, seed=1
        ),
        asyncio.TaskGroup() as group,
    ):
        tasks = [group.create_task(run_all(*sources))]
        await wait_all_synced(*sources)
        tasks += [group.create_task(loop.run()), group.create_task(bind_pods(api, core))]
        yield core
        for task in tasks:
            task.cancel()


async def create_vm(stage: Stage, name: str, cores: int, *, migratable: str = "true") -> None:
    guest = {
        "cpus": {"min": 1, "use": cores, "max": 8},
        "memorySlots": {"min": 1, "use": cores, "max": 16},
    }
    labels = {"autoscaling.neon.tech/enabled": "true", "autoscaling.neon.tech/auto-migration-enabled": migratable}
    body = {"metadata": {"name": name, "labels": labels}, "spec": {"guest": guest}}
    await stage.api.create(VIRTUAL_MACHINES.whole(), body, NS)
    await asyncio.sleep(5)


async def homes(stage: Stage) -> dict[str, set[str]]:
    """Nodes of each VM's pods."""
    found: dict[str, set[str]] = {}
    for raw in (await stage.api.list(PODS, NS)).items:
        pod: VmPod | None = read_vm_pod(raw)
        if pod is not None:
            found.setdefault(pod.vm, set()).add(pod.node)
    return found


async def migrations(stage: Stage) -> list[KubeVirtualMachineMigration]:
    return list((await stage.api.list(VIRTUAL_MACHINE_MIGRATIONS, NS)).items)


def test_a_vm_leaves_a_node_under_pressure_and_the_migration_is_cleaned_up() -> None:
    async def story(stage: Stage) -> None:
        async with at_work(stage) as core:
            await create_vm(stage, "large", 4)
            await create_vm(stage, "small", 3)
            assert await homes(stage) == {"large": {"node-a"}, "small": {"node-a"}}
            assert core.ledger.ledger("node-a").cpu.logical_pressure == 2000
            await asyncio.sleep(90)
            assert await homes(stage) == {"large": {"node-b"}, "small": {"node-a"}}, "the oldest went"
            assert await migrations(stage) == []
            assert core.ledger.ledger("node-a").reserved == size(3, 3)
            assert core.ledger.ledger("node-b").reserved == size(4, 4)
            assert not core.unrelieved

    on_stage(story)


def test_a_migration_that_fails_is_not_repeated_within_its_cooldown() -> None:
    async def story(stage: Stage) -> None:
        async with at_work(stage, failures=1.0) as core:
            await create_vm(stage, "large", 4)
            await create_vm(stage, "pinned", 3, migratable="false")
            began = elapsed()
            seen = set()
            while elapsed() < began + 500:
                seen |= {one.metadata.uid for one in await migrations(stage)}
                await asyncio.sleep(2)
            assert len(seen) == 1
            assert await homes(stage) == {"large": {"node-a"}, "pinned": {"node-a"}}
            assert core.ledger.ledger("node-a").cpu.pressure_accounted_for == 0
            assert core.unrelieved == {"node-a": size(2, 0)}
            await asyncio.sleep(200)
            seen |= {one.metadata.uid for one in await migrations(stage)}
            vm = read_vm(await stage.api.get(VIRTUAL_MACHINES, "large", NS))
            assert vm.last_migration is not None
            assert vm.last_migration - loop_clock().now() > -200, "after its cool-down it was tried again"

    on_stage(story)
