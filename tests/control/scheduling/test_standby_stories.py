"""Standing by: everything is heard and nothing is written, so that the lease is all that a take-over waits for."""

import asyncio
import random

import pytest

from tests.control.scheduling.counted import NS, Counting
from tests.control.scheduling.fleet import add_nodes, reporting, submit
from ullage.act.concurrency import ended
from ullage.config.settings import Settings
from ullage.control.leader.guard import StandbyTransport
from ullage.control.leader.leadership import Leadership
from ullage.control.scheduling.wiring import Scheduler
from ullage.errors import LeadershipLost
from ullage.kube.client.resources import NAMESPACES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.install import install
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_namespace

pytestmark = pytest.mark.story


async def taking_over() -> None:
    clock = loop_clock()
    server = SimulatedApiServer(clock, seed=1)
    api = RestApi(InMemoryTransport(server), rng=random.Random(1))
    await install(api)
    await api.create(NAMESPACES, a_namespace("ullage-system"))
    await add_nodes(api, ["node-00"], clock)
    asked = Counting(InMemoryTransport(server, user="scheduler"))
    transport = StandbyTransport(asked)
    elected = asyncio.Event()
    own = RestApi(transport, rng=random.Random(2))
    scheduler = Scheduler(own, Settings(), clock, instance="one", seed=1)
    running = asyncio.ensure_future(scheduler.run(elected.wait))
    try:
        async with reporting(api, ["node-00"], clock):
            await submit(api, NS, "before", 1)
            await asyncio.sleep(400)
            assert not scheduler.ready
            assert scheduler.unready == "", "it could lead"
            assert set(asked.calls) == {call for call in asked.calls if call.startswith("GET ")}
            with pytest.raises(LeadershipLost):
                await own.delete(PODS, "before", NS)
            asked.calls.clear()
            leadership = Leadership("one", 1, clock, margin=2.0)
            leadership.extend(clock.steady() + 1e6)
            transport.elected(leadership)
            elected.set()
            await asyncio.sleep(0.2)
            assert (await api.get(PODS, "before", NS)).spec.node_name == "node-00"
            assert not [call for call in asked.calls if call.startswith("GET ") and "leases" not in call]
        assert not running.done(), running
    finally:
        await ended(running)


def test_who_stood_by_binds_what_waits_without_asking_for_anything() -> None:
    run_virtual(taking_over())
