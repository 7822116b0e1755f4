"""VMs in simulated worlds: the scheduler's own permit handler, agents and hypervisors, checked at every write."""

import asyncio
from typing import Any

import pytest

from ullage.kube.client.resources import PODS, VIRTUAL_MACHINES
from ullage.kube.write.vm import approval_annotations
from ullage.model.provisioner import GpuTemplate, NodeTemplate
from ullage.model.units import Bytes, Micros
from ullage.model.vm import VmAmounts
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.kubelet.timings import INSTANT
from ullage.sim.virtual_time import run_virtual
from ullage.sim.vms.guest_load import BurstyLoad
from ullage.sim.world.admin_client import AdminClient
from ullage.sim.world.spec import SCHEDULER, FleetNode, WorldSpec
from ullage.sim.world.vms import AGENT, VmWorldSpec, virtual_machine
from ullage.sim.world.world import World, started_world

pytestmark = pytest.mark.story
GI = 1 << 30
SMALL, LARGE = VmAmounts(500, 2 * GI), VmAmounts(8000, 32 * GI)


def a_world(nodes: int, cores: int = 24) -> WorldSpec:
    """Equal nodes with 4Gi for each core."""
    template = NodeTemplate(
        gpus=GpuTemplate(model="", count=0, memory=Bytes(0)),
        resources={"cpu": cores * 1000, "memory": cores * 4 * GI * 1000},
        price=Micros(0),
    )
    return WorldSpec(
        seed=1,
        nodes=tuple(FleetNode(name=f"n{number}", template=template) for number in range(nodes)),
        loops=(SCHEDULER,),
        actors=ControllerManagerSettings(behaviour=INSTANT),
        vms=VmWorldSpec(load=BurstyLoad(seed=1)),
    )


def create_vms(world: World, count: int) -> None:
    for number in range(count):
        manifest = virtual_machine(f"v{number:03}", "gpu-scheduler", SMALL, LARGE)
        manifest["metadata"]["namespace"] = "default"
        world.hand.create(manifest)


def asked(world: World, outcome: str) -> float:
    agents = [] if world.vms is None else world.vms.agents.values()
    return float(sum(agent.metrics.requests.labels(outcome)._value.get() for agent in agents))


def live(spec: WorldSpec, story: Any) -> None:
    async def told() -> None:
        async with started_world(spec) as world:
            await story(world)
            assert world.violation is None, world.violation

    run_virtual(told())


def test_two_hours_of_ten_nodes_with_twenty_vms_and_a_scheduler_that_restarts() -> None:
    async def story(world: World) -> None:
        create_vms(world, 200)
        for _ in range(4):
            await asyncio.sleep(1800)
            world.process(SCHEDULER).restart()
        assert world.vms is not None
        assert sum(len(agent.runners) for agent in world.vms.agents.values()) == 200
        assert asked(world, "granted") > 500
        assert asked(world, "unreachable") > 0, "some requests were lost"
        assert asked(world, "denied") + asked(world, "partial") > 0, "nobody was ever denied: the load is too small"
        checks = world.observers.checking
        assert checks is not None
        assert checks.vms is not None
        assert checks.vms.migrations > 0

    live(a_world(10, cores=32), story)


def test_an_agent_above_its_permit_is_a_violation() -> None:
    """The check itself: somebody in the agent's name gives a VM more than its pod is approved for."""

    async def told() -> None:
        async with started_world(a_world(1)) as world:
            create_vms(world, 1)
            await asyncio.sleep(60)
            impostor = AdminClient(world.server, AGENT)
            impostor.merge(VIRTUAL_MACHINES, "v000", {"spec": {"guest": {"cpus": {"use": 6}}}}, namespace="default")
            assert world.violation is not None
            assert world.violation.rule == "no VM is above its permit"

    run_virtual(told())


def test_approvals_beyond_the_node_are_a_violation() -> None:
    async def told() -> None:
        async with started_world(a_world(1, cores=4)) as world:
            create_vms(world, 1)
            await asyncio.sleep(60)
            notes = approval_annotations(VmAmounts(8000, 8 * GI))
            world.hand.merge(PODS, "v000-0", {"metadata": {"annotations": notes}}, namespace="default")
            assert world.violation is not None
            assert world.violation.rule == "reserved - buffer <= total"

    run_virtual(told())
