"""VMs and Karpenter: pressure that no migration relieves buys one node, which is opened and not handed over."""

import asyncio
import json
from typing import Any

import pytest

from tests.control.karpenter.stage import Stage, a_node_pool, play, settings
from tests.control.scheduling.stage import LEASE_NAMESPACE, NS, an_api
from ullage.kube.client.resources import (
    CONFIG_MAPS,
    EVENTS,
    GPU_CLAIMS,
    NODES,
    PODS,
    VIRTUAL_MACHINE_MIGRATIONS,
    VIRTUAL_MACHINES,
)
from ullage.kube.crds.catalog import VM_KINDS
from ullage.kube.crds.install import install
from ullage.model.karpenter import NODE_POOL_LABEL, NodePoolMapping
from ullage.model.resources import GPU
from ullage.model.vm import VM_NAME, VmAmounts
from ullage.sim.karpenter.solver import InstanceType
from ullage.sim.virtual_time import loop_clock
from ullage.sim.vms.loop import simulated_vm_controller
from ullage.sim.world.vms import virtual_machine
from ullage.testing.builders import a_node, with_meta
from ullage.testing.karpenter_cluster import G1, claim_pod_manifest, instance_type

pytestmark = pytest.mark.story
GI = 1 << 30
LARGE = InstanceType(
    name="large", resources={"cpu": 16_000, "memory": 64 * GI * 1000, "pods": 110_000, GPU: 0}, price=1.0
)
SMALL = InstanceType(
    name="small", resources={"cpu": 8_000, "memory": 32 * GI * 1000, "pods": 110_000, GPU: 0}, price=0.5
)
MAPPING = NodePoolMapping(name="vms", node_pool="vms", gpus_per_node=0)


def a_pool(*, protected: bool = True) -> dict[str, Any]:
    pool = a_node_pool("vms", protected=protected)
    pool["spec"]["template"]["spec"]["taints"] = []
    return pool


async def configured(stage: Stage, selector: dict[str, str]) -> None:
    """Watermarks of 80 %, and a core and 1Gi for the system."""
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


async def begin(stage: Stage, selector: dict[str, str]) -> None:
    """Two VMs too many for the only node. Scheduler and controller, which began without the kinds, find them."""
    await configured(stage, selector)
    await stage.api.create(NODES, a_node("n1", allocatable={"cpu": "16", "memory": "64Gi", "pods": "110"}))
    for name, cores in (("a", 8), ("b", 6)):
        size = VmAmounts(cores * 1000, cores * 4 * GI)
        manifest = virtual_machine(name, "gpu-scheduler", size, size, unit=VmAmounts(1000, 4 * GI))
        await stage.api.create(VIRTUAL_MACHINES.whole(), manifest, NS)


async def nodes_of_vms(stage: Stage) -> list[str]:
    found = (await stage.api.list(VIRTUAL_MACHINES, NS)).items
    return [one.status.node for one in sorted(found, key=lambda one: one.metadata.name)]


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "unprotected"])
def test_pressure_buys_one_node_of_karpenter_and_the_vm_moves_there(protected: bool) -> None:
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
            count = stage.registry.get_sample_value
            assert count("tensor_fusion_scaling_requests_total", {"result": "HandedOver", "reason": ""}) == 1
            assert count("tensor_fusion_scaling_success_rate") == 1
            told = [one["note"] for one in (await stage.api.list(EVENTS, NS)).items]
            assert any("no node has room for the VM below its watermarks" in note for note in told)
            assert not any("GPU" in note for note in told)

    pool = a_pool(protected=protected)
    play(story, types=(SMALL, LARGE), pools=(pool,), chosen=settings(node_pools={"vms": MAPPING}))


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


def test_a_vm_with_a_gpu_gets_a_node_with_room_for_the_vm() -> None:
    """Its runner pod asks for 2 cores, for which the cheap node would do; the VM uses 6."""
    cheap = instance_type("cheap", 1, 0.5, resources={"cpu": 4_000})

    async def story(stage: Stage) -> None:
        await install(stage.api, VM_KINDS)
        await configured(stage, {NODE_POOL_LABEL: "others"})
        size = VmAmounts(6_000, 24 * GI)
        await stage.api.create(VIRTUAL_MACHINES.whole(), virtual_machine("v", "gpu-scheduler", size, size), NS)
        wanted, body = claim_pod_manifest("v", 1)
        await stage.api.create(GPU_CLAIMS, wanted, NS)
        await stage.api.create(PODS, with_meta(body, labels={VM_NAME: "v"}), NS)

        async def placed() -> bool:
            return bool(await stage.node_of("v"))

        await stage.until(placed, 600, every=1.0)
        labels = (await stage.api.get(NODES, await stage.node_of("v"))).metadata.labels
        assert labels["node.kubernetes.io/instance-type"] == G1.name
        assert len(stage.claims_made) == 1, "bought once"

    play(story, types=(cheap, G1))
