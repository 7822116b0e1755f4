"""Bugs put into our own loops in a simulated world: an invariant speaks. Without them the same worlds are quiet."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.sim.world.making import arrives, claim, fleet, pod, pool, world
from ullage.control.leases.loop import gpu_leases
from ullage.control.provisioning import wiring
from ullage.decide.draining import core as draining
from ullage.decide.draining import planner as drain_planner
from ullage.decide.draining import relocation
from ullage.decide.provisioning import planner as buying
from ullage.kube.client.resources import NODES
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.kubelet.timings import INSTANT
from ullage.sim.virtual_time import run_virtual
from ullage.sim.world.agents import AgentFleet, ImplicitAgents
from ullage.sim.world.run import unlogged
from ullage.sim.world.spec import WorldSpec
from ullage.sim.world.world import World, started_world

pytestmark = pytest.mark.story

Story = Callable[[World], Awaitable[None]]
Plant = Callable[[pytest.MonkeyPatch], None]
AT_ONCE = ControllerManagerSettings(behaviour=INSTANT)


def rule_broken_in(story: Story, spec: WorldSpec) -> str:
    """Rule that a story breaks; empty if it breaks none."""

    async def live() -> str:
        async with started_world(spec) as made:
            await story(made)
            made.check_the_end()
            return made.violation.rule if made.violation is not None else ""

    with unlogged():
        return run_virtual(live())


def in_pool(count: int) -> Any:
    return tuple(replace(one, pool="pool") for one in fleet(count))


async def agents_fall_silent(made: World) -> None:
    """Two busy nodes, one with a GPU left, and their agents say nothing for some minutes: one more pod comes."""
    made.submit(arrives(0, claim("a", 8), pod("a", claim="a"), claim("b", 7), pod("b", claim="b")))
    await asyncio.sleep(300)
    for node in sorted(made.agents.nodes()):
        made.agents.silence(node)
    await asyncio.sleep(95)
    made.submit(arrives(0, claim("late"), pod("late", claim="late")))
    await asyncio.sleep(150)
    for node in sorted(made.agents.nodes()):
        made.agents.resume(node)
    await asyncio.sleep(60)


async def a_gpu_is_in_quarantine(made: World) -> None:
    """A pod is gone and its process is not: its GPU is used for hours, and another pod waits for one."""
    agents: AgentFleet = made.agents
    assert isinstance(agents, ImplicitAgents)
    asks = [claim("left"), pod("left", claim="left"), claim("full", 7), pod("full", claim="full")]
    made.submit(arrives(0, *asks))
    await asyncio.sleep(30)
    left = next(one for one in made.observers.mirror.pods.values() if one.key.name == "left")
    before = agents.inventory("gpu-0")
    used = (
        msgspec.structs.replace(one, in_use_by=(left.uid,)) if one.id in left.devices else one for one in before.devices
    )
    agents.replace(msgspec.structs.replace(before, devices=tuple(used)))
    made.hand.delete(pod("left"))
    await asyncio.sleep(60)
    made.submit(arrives(0, claim("waits"), pod("waits", claim="waits")))
    await asyncio.sleep(4000)


def a_deployment(name: str, replicas: int, gpus: int = 1) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {**pod(name, gpus)["spec"], "restartPolicy": "Always"}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


async def one_on_each(made: World) -> None:
    """A pod with two of eight GPUs on each of eight nodes, and a controller manager that stands still from then on."""
    filler = a_deployment("filler", 8, gpus=6)
    made.submit(arrives(0, filler))
    await asyncio.sleep(20)
    made.submit(arrives(0, a_deployment("web", 8, gpus=2)))
    await asyncio.sleep(300)
    made.hand.delete(filler)
    await asyncio.sleep(20)
    made.actors.stop_controllers()


async def the_controller_manager_lags(made: World) -> None:
    await one_on_each(made)
    await asyncio.sleep(1800)


async def the_controller_starts_anew_meanwhile(made: World) -> None:
    await one_on_each(made)
    for _ in range(10):
        await asyncio.sleep(180)
        made.process("draining").crash()
        made.process("draining").start()


def silence_is_not_excused(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(buying, "with_silence", lambda pools: pools)


def leases_are_not_heard_of(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(wiring, "gpu_leases", lambda _namespace: gpu_leases("elsewhere"))


def evicted_pods_are_not_missed(plant: pytest.MonkeyPatch) -> None:
    def nobody(*_: object) -> Sequence[Any]:
        return []

    plant.setattr(drain_planner, "still_missing", nobody)
    plant.setattr(relocation, "still_missing", nobody)


def a_restart_forgets_evictions(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(draining, "missing_at_start", lambda *_: [])


DRAINED = pool(most=8, minGPUUtilizationPercent=90, consolidation={"policy": "Drain", "unneededTime": "1m"})
BUYS = world(in_pool(2), objects=(pool(),))
BUYS_FOR_ONE = world(in_pool(1), objects=(pool(),))
DRAINS = world(in_pool(8), objects=(DRAINED,), actors=AT_ONCE)
CASES = {
    "silent agents buy nodes": (
        agents_fall_silent,
        BUYS,
        silence_is_not_excused,
        "nothing is bought in place of a late report",
    ),
    "a GPU in quarantine counts as free": (
        a_gpu_is_in_quarantine,
        BUYS_FOR_ONE,
        leases_are_not_heard_of,
        "a purchase comes for who needs one",
    ),
    "whoever was evicted is not missed": (
        the_controller_manager_lags,
        DRAINS,
        evicted_pods_are_not_missed,
        "whoever was evicted has a place to come back to",
    ),
    "a restart forgets who was evicted": (
        the_controller_starts_anew_meanwhile,
        DRAINS,
        a_restart_forgets_evictions,
        "whoever was evicted has a place to come back to",
    ),
}


@pytest.mark.parametrize(("story", "spec", "plant", "rule"), CASES.values(), ids=CASES)
def test_a_bug_breaks_its_rule(
    story: Story, spec: WorldSpec, plant: Plant, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    assert rule_broken_in(story, spec) == rule


@pytest.mark.parametrize(
    ("story", "spec"),
    [pytest.param(story, spec, id=story.__name__.replace("_", "-")) for story, spec, _, _ in CASES.values()],
)
def test_without_the_bug_nothing_is_broken(story: Story, spec: WorldSpec) -> None:
    assert rule_broken_in(story, spec) == ""


def test_nobody_is_evicted_in_vain() -> None:
    """The world of the drains is one in which nodes go: else it shows nothing."""

    async def story(made: World) -> None:
        await one_on_each(made)
        made.actors.let_controllers_go_on()
        await asyncio.sleep(1800)
        assert len((await made.api.list(NODES)).items) < 8

    assert rule_broken_in(story, DRAINS) == ""
