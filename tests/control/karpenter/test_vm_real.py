"""VMs on a real Karpenter: pressure that no migration relieves buys one node, on which the VM ends."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from ullage.clock import WallClock
from ullage.errors import AlreadyExists
from ullage.kube.auth.connect import find_access, open_api
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import CONFIG_MAPS, EVENTS, NODES, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.kube.crds.catalog import VM_KINDS
from ullage.kube.crds.install import install
from ullage.model.karpenter import INSTANCE_TYPE_LABEL, NODE_POOL_LABEL
from ullage.model.lease import LEASE_NAMESPACE
from ullage.model.vm import VM_NEEDS_NODE, VmAmounts
from ullage.sim.karpenter.solver import InstanceType
from ullage.sim.vms.controller import HypervisorTimings
from ullage.sim.vms.loop import simulated_vm_controller
from ullage.sim.world.vms import virtual_machine
from ullage.testing.builders import a_node, with_meta
from ullage.testing.controlplane import ControlPlane
from ullage.testing.controlplane.components import KWOK_NODE_ANNOTATION
from ullage.testing.controlplane.fixtures import prepare
from ullage.testing.karpenter_cluster import (
    NAMESPACE,
    KarpenterCluster,
    karpenter_cluster,
    karpenter_spec,
    kwok_node_pool,
)

pytestmark = [pytest.mark.real, pytest.mark.full, pytest.mark.timeout(280)]

GI = 1 << 30
POOL = "vms"
SMALL = InstanceType(name="small", resources={"cpu": 8_000, "memory": 32 * GI * 1000, "pods": 110_000}, price=0.5)
LARGE = InstanceType(name="large", resources={"cpu": 16_000, "memory": 64 * GI * 1000, "pods": 110_000}, price=1.0)
SETTINGS = {
    "karpenter": {"enabled": True, "nodePools": {POOL: {"nodePool": POOL, "gpusPerNode": 0}}},
    "vms": {"pressureSustained": "1s", "nodeNeedAfter": "2s", "migrationCooldown": "8s"},
}
_PART = {"watermark": 0.8, "system": "1"}
CONFIG = {
    "nodeDefaults": {
        "cpu": _PART,
        "memory": _PART | {"system": "1Gi"},
        "computeUnit": {"vCPUs": 1, "mem": 4},
    },
    "nodeSelector": {NODE_POOL_LABEL: POOL},
}


def a_pool() -> JsonObject:
    """The example pool, for nodes without GPUs."""
    pool = with_meta(kwok_node_pool(), name=POOL)
    pool["spec"]["template"]["spec"]["taints"] = []
    pool["spec"]["limits"] = {"cpu": "100"}
    return pool


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own: its cloud sells nodes without GPUs, and it serves the kinds of VMs."""
    with prepare(karpenter_spec(tmp_path_factory.mktemp("karpenter-vms"), (SMALL, LARGE))) as started:
        yield started


@pytest.fixture
async def cluster(plane: ControlPlane) -> AsyncIterator[KarpenterCluster]:
    """A node of 16 cores that is nobody's, a NodePool, and VMs with their controller."""
    access = find_access(plane.kubeconfig)
    api, hypervisor = open_api(access, seed=0), open_api(access, seed=1)
    try:
        async with karpenter_cluster(api, node_pool=a_pool()) as found:
            await install(api, VM_KINDS)
            config = {"metadata": {"name": "vm-nodes"}, "data": {"config.json": json.dumps(CONFIG)}}
            with suppress(AlreadyExists):
                await api.create(CONFIG_MAPS, config, LEASE_NAMESPACE)
            node = a_node("n1", allocatable={"cpu": "16", "memory": "64Gi", "pods": "110"})
            await api.create(NODES, with_meta(node, annotations=dict([KWOK_NODE_ANNOTATION])))
            timings = HypervisorTimings(hotplug=0.1, migration=2.0)
            async with simulated_vm_controller(hypervisor, WallClock(), timings, seed=1):
                yield found
    finally:
        await hypervisor.close()
        await api.close()


@pytest.fixture
def settings(tmp_path: Path) -> str:
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(SETTINGS))
    return str(path)


async def a_vm(cluster: KarpenterCluster, name: str, cores: int) -> None:
    size = VmAmounts(cores * 1000, cores * 4 * GI)
    manifest = virtual_machine(name, "gpu-scheduler", size, size, unit=VmAmounts(1000, 4 * GI))
    await cluster.api.create(VIRTUAL_MACHINES.whole(), manifest, NAMESPACE)

    async def runs() -> bool:
        return bool((await machine(cluster, name)).status.phase == "Running")

    await cluster.until(runs, 60.0)


async def machine(cluster: KarpenterCluster, name: str) -> Any:
    return await cluster.api.get(VIRTUAL_MACHINES, name, NAMESPACE)


async def test_pressure_buys_one_node_and_the_vm_moves_there(
    cluster: KarpenterCluster, plane: ControlPlane, programs: PoolPrograms, settings: str
) -> None:
    anywhere = ("--permits", "127.0.0.1:0", "--state", "127.0.0.1:0")
    programs.scheduler(plane.kubeconfig, "--settings", settings, *anywhere, ALONE)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    await a_vm(cluster, "a", 8)
    await a_vm(cluster, "b", 6)

    async def nodes() -> list[str]:
        return [(await machine(cluster, name)).status.node for name in "ab"]

    assert await nodes() == ["n1", "n1"], "14 of 15 cores, and the watermark is at 12"

    async def relieved() -> bool:
        moving = (await cluster.api.list(VIRTUAL_MACHINE_MIGRATIONS, NAMESPACE)).items
        return len(set(await nodes()) - {""}) == 2 and not any(moving)

    await cluster.until(relieved)
    await cluster.settled()
    (bought,) = set(await nodes()) - {"n1"}
    node = await cluster.api.get(NODES, bought)
    assert node.metadata.labels[NODE_POOL_LABEL] == POOL
    assert node.metadata.labels[INSTANCE_TYPE_LABEL] == LARGE.name, "the VM has to fit below the watermark"
    assert not node.spec.taints
    notes = [one["note"] for one in (await cluster.api.list(EVENTS, NAMESPACE)).items]
    assert any("no node has room for the VM below its watermarks" in note for note in notes)
    await asyncio.sleep(40)  # longer than the pool's consolidateAfter
    programs.check_running()
    assert len(cluster.claims_made) == 1, "bought once"
    assert bought in await nodes()
    assert [name for name in "ab" if VM_NEEDS_NODE in (await machine(cluster, name)).metadata.annotations] == []
