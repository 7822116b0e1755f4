"""VMs and Karpenter: pressure that no migration relieves buys one node, which is opened and not handed over."""

import asyncio
import json
from typing import Any

import pytest

from tests.control.karpenter.stage import Stage, a_node_pool, play, settings
from tests.control.scheduling.stage import LEASE_NAMESPACE, NS, an_api
from ullage.kube.client.resources import CONFIG_MAPS, NODES, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.kube.crds.catalog import VM_KINDS
from ullage.kube.crds.install import install
from ullage.model.karpenter import NODE_POOL_LABEL, NodePoolMapping
from ullage.model.resources import GPU
from ullage.model.vm import VmAmounts
from ullage.sim.karpenter.solver import InstanceType
from ullage.sim.virtual_time import loop_clock
from ullage.sim.vms.loop import simulated_vm_controller
from ullage.sim.world.vms import virtual_machine
from ullage.testing.builders import a_node

pytestmark = pytest.mark.story
GI = 1 << 30
LARGE = InstanceType(
    name="large", resources={"cpu": 16_000, "memory": 64 * GI * 1000, "pods": 110_000, GPU: 0}, price=1.0
)
SMALL = InstanceType(
    name="small", resources={"cpu": 8_000, "memory": 32 * GI * 1000, "pods": 110_000, GPU: 0}, price=0.5
)
MAPPING = NodePoolMapping(name="vms", node_pool="vms", gpu_model="none")


def a_pool() -> dict[str, Any]:
    pool = a_node_pool("vms")
    pool["spec"]["template"]["spec"]["taints"] = []
    return pool


async def begin(stage: Stage, selector: dict[str, str]) -> None:
    """Two VMs too many for the only node. Scheduler and controller, which began without the kinds, find them."""
    used = {"watermark": 0.8, "system": "1"}
    config = {
        "nodeDefaults": {
            "cpu": used,
            "memory": used | {"system": "1Gi"},
            "computeUnit": {"vCPUs": 1, "mem": 4},
        },
        "nodeSelector": selector,
    }
    body = {"metadata": {"name": "vm-nodes"}, "data": {"config.json": json.dumps(config)}}
    await stage.api.create(CONFIG_MAPS, body, LEASE_NAMESPACE)
    await stage.api.create(NODES, a_node("n1", allocatable={"cpu": "16", "memory": "64Gi", "pods": "110"}))
    for name, cores in (("a", 8), ("b", 6)):
        size = VmAmounts(cores * 1000, cores * 4 * GI)
        manifest = virtual_machine(name, "gpu-scheduler", size, size, unit=VmAmounts(1000, 4 * GI))
        await stage.api.create(VIRTUAL_MACHINES.whole(), manifest, NS)


async def nodes_of_vms(stage: Stage) -> list[str]:
    found = (await stage.api.list(VIRTUAL_MACHINES, NS)).items
    return [one.status.node for one in sorted(found, key=lambda one: one.metadata.name)]


def test_pressure_buys_one_node_of_karpenter_and_the_vm_moves_there() -> None:
    async def story(stage: Stage) -> None:
        await install(stage.api, VM_KINDS)
        async with simulated_vm_controller(an_api(stage.server, 9), loop_clock(), seed=1):
            await begin(stage, {NODE_POOL_LABEL: "vms"})

            async def relieved() -> bool:
                first, second = await nodes_of_vms(stage)
                moving = (await stage.api.list(VIRTUAL_MACHINE_MIGRATIONS, NS)).items
                return bool(first) and first != "n1" and second == "n1" and not moving

            await stage.until(relieved, 600, every=1.0)
            await stage.settled()
            await asyncio.sleep(600)
            assert len(stage.claims_made) == 1, "bought once"
            (bought,) = set(await nodes_of_vms(stage)) - {"n1"}
            labels = (await stage.api.get(NODES, bought)).metadata.labels
            assert labels["node.kubernetes.io/instance-type"] == "large", "the VM has to fit below the watermark"

    play(story, types=(SMALL, LARGE), pools=(a_pool(),), chosen=settings(node_pools={"vms": MAPPING}))


@pytest.mark.parametrize("selector", [{}, {NODE_POOL_LABEL: "others"}], ids=["none-is", "another-is"])
def test_a_node_pool_that_is_not_meant_for_vms_is_not_asked(selector: dict[str, str]) -> None:
    async def story(stage: Stage) -> None:
        await install(stage.api, VM_KINDS)
        async with simulated_vm_controller(an_api(stage.server, 9), loop_clock(), seed=1):
            await begin(stage, selector)
            await asyncio.sleep(240)
            assert await nodes_of_vms(stage) == ["n1", "n1"]
            assert not stage.claims_made
            assert not await stage.smart_pods()

    play(story, types=(SMALL, LARGE), pools=(a_pool(),), chosen=settings(node_pools={"vms": MAPPING}))
