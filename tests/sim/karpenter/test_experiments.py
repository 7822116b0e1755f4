"""The simulated Karpenter and kube-scheduler in every experiment that was measured on the real ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.control.karpenter.stage import install_karpenter
from tests.control.scheduling.stage import an_api
from tests.sim.karpenter.experiments import EXPERIMENTS, TYPES, Experiment, a_pool
from tests.sim.karpenter.lab import Lab
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.controllers.wiring import ControllerManagerSettings, start_actors
from ullage.sim.karpenter.karpenter import SimulatedKarpenter
from ullage.sim.karpenter.kube_scheduler import SimulatedKubeScheduler
from ullage.sim.kubelet.timings import DurationRange, KubeletTimings
from ullage.sim.virtual_time import loop_clock, run_virtual

pytestmark = pytest.mark.story


@asynccontextmanager
async def simulated(one: Experiment) -> AsyncIterator[Lab]:
    clock = loop_clock()
    server = SimulatedApiServer(clock, seed=1)
    api = an_api(server, 1)
    await install_karpenter(api, [a_pool(one)])
    karpenter = SimulatedKarpenter(an_api(server, 2), clock, TYPES, seed=1)
    scheduler = SimulatedKubeScheduler(an_api(server, 3), clock, seed=1, backs_off=True)
    played = ControllerManagerSettings(behaviour=KubeletTimings(seed=1, stop=DurationRange(0.1, 0.2)), seed=1)
    async with start_actors(an_api(server, 4), clock, played):
        beside = [asyncio.ensure_future(one.run()) for one in (karpenter, scheduler)]
        try:
            yield Lab(api, clock)
        finally:
            for task in beside:
                task.cancel()
            ended = await asyncio.gather(*beside, return_exceptions=True)
    assert not [error for error in ended if isinstance(error, Exception)], ended


@pytest.mark.parametrize("one", EXPERIMENTS, ids=[one.id for one in EXPERIMENTS])
def test_the_simulated_one_does_what_the_real_one_does(one: Experiment) -> None:
    async def live() -> None:
        async with simulated(one) as lab:
            await asyncio.sleep(3.0)
            await one.story(lab)
            lab.check()

    run_virtual(live())
