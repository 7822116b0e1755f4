"""A controller that is killed again and again: nodes go all the same, none is left marked, no timer starts anew."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.control.draining.at_scale.checks import everything_wrong, newest, removals, too_early
from tests.control.draining.at_scale.cluster import (
    Load,
    Service,
    bought,
    buy,
    drain_from_now_on,
    drained,
    machines_made,
    nodes_of,
    place,
    services_for,
    thin,
    until,
)
from tests.control.draining.at_scale.reports import LISTENING, at_work
from tests.control.draining.at_scale.watching import Wanted, seen, taints
from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from ullage.kube.client.api import KubeApi
from ullage.kube.objects.node import KubeNode
from ullage.kube.objects.pod import KubePod
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.testing.checks.disruption import DisruptionHistory, ObservedDrain, left_marked, timers
from ullage.testing.controlplane import ControlPlane

pytestmark = [pytest.mark.real, pytest.mark.fault]

SIZE = 10
KILLS = 5
"""In one run. Ten runs are fifty points."""
OPTIONS = (ALONE, "--node-delete-delay-after-taint", "1s", "--scan-interval", "1s", "--allow-serial-eviction")
UNNEEDED = 3
SLOWLY = {"maxScaleDownParallelism": 2, "maxDrainParallelism": 1}
"""One node after another, so that there is something to be killed in the middle of."""


def something_is(what: Callable[[dict[str, str]], bool]) -> Wanted:
    return lambda moment: isinstance(moment.fact, KubeNode) and not moment.gone and what(taints(moment))


OCCASIONS: tuple[Wanted, ...] = (
    something_is(lambda marks: CANDIDATE_TAINT in marks and DRAINING_TAINT not in marks),
    something_is(lambda marks: DRAINING_TAINT in marks),
    lambda moment: isinstance(moment.fact, KubePod) and moment.fact.metadata.deletion_timestamp is not None,
    lambda moment: isinstance(moment.fact, KubePod) and not moment.fact.spec.node_name,
    lambda moment: isinstance(moment.fact, KubeNode) and moment.gone,
    lambda _: True,
)
"""A node is marked; tainted; a pod is evicted; its replacement made; a node gone; anything at all."""


class Mortal:
    """The controller, which dies and comes again."""

    def __init__(self, plane: ControlPlane, programs: PoolPrograms, chance: random.Random, *options: str) -> None:
        self._plane = plane
        self._programs = programs
        self._chance = chance
        self._options = (*OPTIONS, *options)
        self.come_again()

    async def die(self, history: DisruptionHistory) -> None:
        """At one of the occasions, or a little later; or when nothing has happened for a while."""
        occasion = self._chance.choice(OCCASIONS)
        with suppress(TimeoutError):
            await seen(history, occasion, 8, since=len(history.changes))
        await asyncio.sleep(self._chance.choice((0.0, self._chance.uniform(0.0, 0.3), self._chance.uniform(0.0, 2.0))))
        self.die_now()
        await asyncio.sleep(self._chance.uniform(0.0, 0.5))
        self.come_again()

    def die_now(self) -> None:
        self._programs.kill(self._running)

    def come_again(self) -> None:
        self._running = self._programs.controller(self._plane.kubeconfig, *self._options)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 10))])
async def test_killed_at_five_random_points(
    plane: ControlPlane, api: KubeApi, programs: PoolPrograms, seed: int
) -> None:
    programs.scheduler(plane.kubeconfig, ALONE)
    mortal = Mortal(plane, programs, random.Random(seed))
    await buy(api, SIZE)
    loads = dict(thin(await bought(api, SIZE, programs)))
    services = services_for(loads)
    await place(api, loads, services, programs)
    async with DisruptionHistory(api) as history:
        start = newest(history.changes)
        await drain_from_now_on(api, unneededTime=f"{UNNEEDED}s", **SLOWLY)
        in_the_middle = 0
        for _ in range(KILLS):
            await mortal.die(history)
            in_the_middle += not await drained(api, loads, services)
        await until(lambda: drained(api, loads, services), 90, programs)
        await history.whole()
    assert in_the_middle > KILLS // 2, "it was done too early: this run shows little"
    assert list(everything_wrong(history.changes, services, after=start)) == []
    assert list(too_early(removals(history.changes), UNNEEDED)) == []
    assert list(left_marked(await nodes_of(api), DRAINING_TAINT, CANDIDATE_TAINT)) == []
    assert await machines_made(api) == SIZE


async def test_timers_outlive_the_controller(plane: ControlPlane, api: KubeApi, programs: PoolPrograms) -> None:
    """It does not live as long as a node has to be a candidate; nodes go when their time has come all the same.

    On a busy machine a program takes its time to start: nobody is late before there is somebody at work.
    """
    lives, lifetime, unneeded, slack = 3, 3.0, 15, 10
    programs.scheduler(plane.kubeconfig, ALONE)
    mortal = Mortal(plane, programs, random.Random(0), *LISTENING)
    at_work_since = [await at_work(programs)]
    await buy(api, 6)
    names = await bought(api, 6, programs)
    loads = dict(zip(names, [Load(gpu=5), Load(gpu=5), Load(plain=1), Load(plain=1), Load(), Load()], strict=True))
    services = [Service("infer", 10, {"maxUnavailable": 1}, gpus=1), Service("web", 2, {"maxUnavailable": 2})]
    await place(api, loads, services, programs)
    async with DisruptionHistory(api) as history:
        await drain_from_now_on(api, unneededTime=f"{unneeded}s")
        await seen(history, OCCASIONS[0], 20)
        for _ in range(lives):
            await asyncio.sleep(lifetime)
            mortal.die_now()
            mortal.come_again()
            at_work_since.append(await at_work(programs))
        await until(lambda: drained(api, loads, services), 60, programs)
        await history.whole()
    said = timers(history.changes, candidate=CANDIDATE_TAINT)
    assert {name: len(values) for name, values in said.items()} == dict.fromkeys(names[2:], 1), said
    found = removals(history.changes)
    assert list(too_early(found, unneeded)) == []

    def late(one: ObservedDrain) -> float:
        """After its time had come, and somebody was there to see it."""
        begun = int(one.value)
        somebody = max(moment for moment in at_work_since if moment < begun + 1)
        return begun - max(int(one.candidate_since) + unneeded, somebody)

    assert [one for one in found if late(one) > slack] == []
