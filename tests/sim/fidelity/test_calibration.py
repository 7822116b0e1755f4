"""What is measured of a control plane is what it takes: shown on simulated ones, whose latencies are known."""

import random

import pytest

from ullage.kube.client.resources import NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.sim.apiserver import InMemoryTransport
from ullage.sim.apiserver.network_faults import NetworkConditions
from ullage.sim.virtual_time import run_virtual
from ullage.sim.world.run import unlogged
from ullage.sim.world.world import started_world
from ullage.testing.fidelity.calibration import QUIET, MeasuredLatency, measured_latency
from ullage.testing.fidelity.simulated import simulated_spec
from ullage.testing.fidelity.stories import FidelityStory

BUSY = MeasuredLatency(
    calls={"GET": 0.01, "POST": 0.03, "PATCH": 0.02, "DELETE": 0.05},
    each=0.01,
    watch=0.025,
    start=0.04,
    end=0.03,
    buy=0.05,
    boot=0.05,
    gpus=0.05,
)


@pytest.mark.story
@pytest.mark.parametrize("told", [pytest.param(QUIET, id="quiet"), pytest.param(BUSY, id="busy")])
def test_what_is_measured_is_what_the_simulator_was_told(told: MeasuredLatency) -> None:
    async def live() -> MeasuredLatency:
        spec = simulated_spec(FidelityStory("empty", random.Random(0)), told)
        async with started_world(spec) as world:
            network = NetworkConditions(seed=1, latency=spec.latency)
            client = RestApi(InMemoryTransport(world.server, network=network), rng=random.Random(1), lossless=True)
            found = await measured_latency(client, world.clock)
            assert not world.hand.all_of(PODS)
            assert not world.hand.all_of(NODES)
            return found

    with unlogged():
        found = run_virtual(live())
    # A call takes up to a fifth more or less, by chance.
    assert found.calls == {method: pytest.approx(seconds, rel=0.2) for method, seconds in told.calls.items()}
    assert 0 < found.buy < 4 * sum(told.calls.values()), "a few calls"
    assert 0 < found.boot < 10 * sum(told.calls.values())
    for measured, meant in (
        (found.each, told.each),
        (found.watch, told.watch),
        (found.start, told.start),
        (found.end, told.end),
    ):
        assert measured == pytest.approx(meant, rel=0.2, abs=0.001)
