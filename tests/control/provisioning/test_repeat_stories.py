"""What the API server failed is done later, also where the cloud announces its changes and nothing else happens."""

import asyncio
from dataclasses import replace

import pytest

from tests.sim.world.making import AT_ONCE, arrives, claim, fleet, pod, pool, world
from ullage.kube.client.transport import Request
from ullage.model.fact_event import ObjectKey
from ullage.sim.apiserver.network_faults import NetworkFault
from ullage.sim.virtual_time import run_virtual
from ullage.sim.world.processes import CONTROLLER
from ullage.sim.world.run import unlogged
from ullage.sim.world.world import World, started_world

pytestmark = [pytest.mark.story, pytest.mark.fault]

FAILS_FOR = 30.0


async def _failing_once_begun(made: World, method: str, path: str, within: float) -> None:
    """Have calls of the controller fail, from the first one for some time."""
    met: list[float] = []

    def broken(request: Request) -> NetworkFault | None:
        if request.method != method or not request.path.startswith(path):
            return None
        met.append(made.elapsed)
        return NetworkFault.BROKEN

    end = made.loops.network[CONTROLLER].script(broken)
    async with asyncio.timeout(within):
        while not met:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(1)
    await asyncio.sleep(FAILS_FOR)
    end()


async def _size_becomes(made: World, nodes: int, within: float) -> None:
    async with asyncio.timeout(within):
        while len(made.observers.mirror.nodes) != nodes:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(1)


def test_a_node_that_could_not_be_looked_at_goes_later() -> None:
    async def live() -> None:
        spec = world(tuple(replace(one, pool="pool") for one in fleet(2)), objects=(pool(least=1),))
        async with started_world(spec) as made:
            await _failing_once_begun(made, "GET", "/api/v1/nodes/", within=60)
            await _size_becomes(made, 1, within=400)

    with unlogged():
        run_virtual(live())


def test_a_purchase_that_could_not_be_written_down_is_made_later() -> None:
    async def live() -> None:
        async with started_world(world(0, objects=(pool(),))) as made:
            await asyncio.sleep(60)
            made.submit(arrives(0, claim("a"), pod("a", claim="a")))
            path = "/apis/gpu.scheduling/v1/nodeprovisioners/"
            await _failing_once_begun(made, "PATCH", path, within=60)
            await _size_becomes(made, 1, within=200)

    with unlogged():
        run_virtual(live())


def test_a_node_that_outlives_its_machine_is_not_given_to_a_pod() -> None:
    """Its machine is deleted, and the Node cannot be: a pod that comes then gets another node, and the old one goes."""

    async def live() -> None:
        machines = tuple(replace(one, pool="pool") for one in fleet(1))
        actors = replace(AT_ONCE, heartbeats=True)  # a node without its kubelet gets unready
        spec = world(machines, objects=(pool(),), actors=actors)
        async with started_world(spec) as made:
            failing = asyncio.create_task(_failing_once_begun(made, "DELETE", "/api/v1/nodes/", within=400))
            async with asyncio.timeout(400):
                while made.cloud.machine_ids():  # noqa: ASYNC110 - virtual time
                    await asyncio.sleep(1)
            (old,) = made.observers.mirror.nodes
            made.actors.kubelets.fail(old)
            made.submit(arrives(0, claim("a"), pod("a", claim="a")))
            await failing
            async with asyncio.timeout(400):
                while not (one := made.observers.mirror.pods[ObjectKey("default", "a")]).node:  # noqa: ASYNC110 - virtual time
                    await asyncio.sleep(1)
            assert one.node != old
            await _size_becomes(made, 1, within=400)

    with unlogged():
        run_virtual(live())
