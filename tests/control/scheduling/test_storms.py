"""Storms: lost answers, refusals, cut watches, crashes at any moment; what must hold does at every event.

With one scheduler at a time everything is promised; with two at once, that no GPU has two holders.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest

from tests.control.scheduling.fleet import submit, submit_gang
from tests.control.scheduling.stage import NS, Setting, Stage, play
from ullage.kube.client.api import DELETE_NOW
from ullage.kube.client.resources import PODS, PRIORITY_CLASSES
from ullage.model.pod import Pod
from ullage.sim.apiserver.network_faults import FaultRates, Latency, NetworkFault
from ullage.testing.builders import a_priority_class
from ullage.testing.checks.placement_history import begun_too_early

pytestmark = pytest.mark.fault

NODES = 4
STORMY = FaultRates(
    {NetworkFault.LOST: 0.05, NetworkFault.REFUSED: 0.03, NetworkFault.BROKEN: 0.02, NetworkFault.THROTTLED: 0.02},
    stream_cut=0.02,
)
SLOW = Latency(default=0.02, spread=4.0, watch=0.05)
STORM_SECONDS = 90.0
CALM_SECONDS = 900.0
"""A gang may have given up several times, and stands back for longer each time."""


class Bustle:
    """People at work in bad weather: they make pods and gangs, and end them; and schedulers die under them."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._chance = random.Random(seed)
        self._made = 0
        self.gangs: dict[str, int] = {}
        """How many members each needs."""

    async def go_on(self, seconds: float) -> None:
        end = self._stage.clock.now() + seconds
        for name, value in (("low", 1), ("high", 100)):
            await self._stage.api.create(PRIORITY_CLASSES, a_priority_class(name, value))
        while self._stage.clock.now() < end:
            await asyncio.sleep(self._chance.expovariate(2.0))
            (act,) = self._chance.choices(
                (self._pod, self._share, self._gang, self._end_some, self._crash), (8, 2, 1, 3, 1)
            )
            await act()

    async def _pod(self) -> None:
        mode = self._chance.choice(["Preferred", "Required"])
        gpus = self._chance.choice([1, 1, 1, 2, 4])
        await submit(self._stage.api, NS, self._name("p"), gpus, pod=self._rank(), topology={"mode": mode})

    async def _share(self) -> None:
        devices = {"exclusivity": "Shared", "memory": self._chance.choice(["10Gi", "30Gi"])}
        await submit(self._stage.api, NS, self._name("s"), 1, requested=0, pod=self._rank(), devices=devices)

    async def _gang(self) -> None:
        name, members = self._name("g"), self._chance.choice([2, 3])
        self.gangs[name] = members
        await submit_gang(
            self._stage.api, NS, name, members=members, gpus=self._chance.choice([2, 8]), timeout=30, pod=self._rank()
        )

    async def _end_some(self) -> None:
        pods = (await self._stage.api.list(PODS, NS)).items
        for pod in self._chance.sample(pods, k=min(len(pods), self._chance.randint(1, 4))):
            await self._stage.delete(pod.metadata.name)

    async def _crash(self) -> None:
        victim = self._chance.choice(self._stage.schedulers)
        victim.crash()
        await asyncio.sleep(self._chance.uniform(0.0, 3.0))
        victim.start()

    def _name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}{self._made}"

    def _rank(self) -> Mapping[str, Any]:
        return {"priorityClassName": self._chance.choice(["low", "low", "low", "high"])}


async def end_well(stage: Stage) -> None:
    """The weather clears: everything comes to rest, and when all pods have ended nothing is left of them."""
    for network in stage.network:
        network.odds = FaultRates()
    await stage.at_rest(CALM_SECONDS)
    for pod in (await stage.api.list(PODS, NS)).items:
        await stage.api.delete(PODS, pod.metadata.name, NS, how=DELETE_NOW)

    async def nothing_is_held() -> bool:
        return not (await stage.read()).leases

    await stage.until(nothing_is_held, 45)
    await stage.at_rest(60)


async def rejected(stage: Stage) -> list[str]:
    """Pods their kubelets refused: somebody was bound where there was no room."""
    pods = (await stage.api.list(PODS.whole(), NS)).items
    return [pod["metadata"]["name"] for pod in pods if pod["status"].get("reason", "").startswith("OutOf")]


def storm(seed: int, schedulers: int) -> None:
    async def story(stage: Stage) -> None:
        bustle = Bustle(stage, seed)
        await bustle.go_on(STORM_SECONDS)
        refused_by_kubelets = await rejected(stage)
        await end_well(stage)
        if schedulers > 1:
            return
        assert refused_by_kubelets == []
        await stage.history.whole()
        changes = stage.history.changes
        for name, needed in bustle.gangs.items():
            pods = (one.fact for one in changes if isinstance(one.fact, Pod))
            members = {pod.uid for pod in pods if pod.key.name.startswith(f"{name}-")}
            assert list(begun_too_early(changes, members, needed)) == []

    play(Setting(nodes=NODES, schedulers=schedulers, seed=seed, odds=STORMY, latency=SLOW), story)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 25))])
def test_in_any_storm_what_must_hold_holds_and_all_ends_well(seed: int) -> None:
    storm(seed, schedulers=1)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 15))])
def test_two_schedulers_in_a_storm_never_give_a_gpu_twice(seed: int) -> None:
    storm(seed + 1000, schedulers=2)
