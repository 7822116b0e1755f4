"""Order invariant: whoever waits may be overtaken once, and not again and again."""

import asyncio
import random
from typing import Any

import pytest

from ullage.kube.client.api import DELETE_NOW, Binding, MergePatch
from ullage.kube.client.resources import GPU_CLAIMS, NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.install import install
from ullage.model.allocation import CLAIM
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.sim.world.invariants.breach import InvariantBreach
from ullage.sim.world.invariants.order import MOST_TIMES, OrderChecks
from ullage.sim.world.object_mirror import ObjectMirror
from ullage.testing.builders import a_pod

NS, SCHEDULER = "default", "scheduler"


class Story:
    """Pods that are created by a user and placed by the scheduler, observed by the checks."""

    def __init__(self) -> None:
        self.breaches: list[InvariantBreach] = []
        server = SimulatedApiServer(loop_clock(), seed=1)
        self.user = RestApi(InMemoryTransport(server), rng=random.Random(1))
        self.scheduler = RestApi(InMemoryTransport(server, user=SCHEDULER), rng=random.Random(2))
        OrderChecks(ObjectMirror(server, loop_clock()), self.breaches.append, SCHEDULER)

    async def pod(self, name: str, *, claim: dict[str, Any] | None = None, **spec: Any) -> None:
        annotations = {}
        if claim is not None:
            await self.user.create(GPU_CLAIMS, {"metadata": {"name": name}, "spec": claim}, NS)
            annotations = {CLAIM: name}
        await self.user.create(PODS, a_pod(name, annotations=annotations, **spec), NS)

    async def newcomers(self, count: int, every: float = 60.0, **asks: Any) -> None:
        """So many, each of which is placed at once."""
        for number in range(count):
            await asyncio.sleep(every)
            await self.pod(f"new-{number}", **asks)
            await self.scheduler.bind(f"new-{number}", NS, Binding("n"))


def said(setup: Any) -> list[str]:
    async def live() -> list[str]:
        story = Story()
        await install(story.user)
        await story.user.create(NODES, {"metadata": {"name": "n"}})
        await setup(story)
        return [one.sentence for one in story.breaches]

    return run_virtual(live())


ONE = {"devices": {"count": 1}}


@pytest.mark.parametrize("asks", [{"gpus": 1}, {"claim": ONE}], ids=["by-number", "by-claim"])
@pytest.mark.parametrize(("times", "breaches"), [(MOST_TIMES, 0), (MOST_TIMES + 1, 1)], ids=["some-times", "again"])
def test_who_came_first_and_is_overtaken(asks: dict[str, Any], times: int, breaches: int) -> None:
    async def setup(story: Story) -> None:
        await story.pod("old", **asks)
        await story.newcomers(times, **asks)

    found = said(setup)
    assert len(found) == breaches
    assert all(one.startswith(f"{NS}/old waited while {MOST_TIMES + 1} pods") for one in found)


async def _asks_for_more(story: Story) -> None:
    await story.pod("old", claim={"devices": {"count": 2}})
    await story.newcomers(9, claim=ONE)


async def _asks_for_another_node(story: Story) -> None:
    await story.pod("old", gpus=1, nodeSelector={"kind": "rare"})
    await story.newcomers(9, gpus=1)


async def _in_a_burst(story: Story) -> None:
    await story.pod("old", gpus=1)
    await story.newcomers(9, every=1.0, gpus=1)


async def _gated(story: Story) -> None:
    await story.pod("old", gpus=1, schedulingGates=[{"name": "later"}])
    await story.newcomers(9, gpus=1)


async def _by_somebody_else(story: Story) -> None:
    await story.pod("old", gpus=1)
    story.scheduler = story.user
    await story.newcomers(9, gpus=1)


async def _leaves(story: Story) -> None:
    await story.pod("old", gpus=1)
    await story.newcomers(MOST_TIMES, gpus=1)
    await story.user.delete(PODS, "old", NS, how=DELETE_NOW)
    await story.pod("later", gpus=1)
    await story.scheduler.bind("later", NS, Binding("n"))


async def _of_a_gang(story: Story) -> None:
    gang = {**ONE, "gangRef": "g", "gangMinMember": 9}
    await story.pod("old", claim=gang)
    await story.newcomers(9, claim=gang)


async def _edited(story: Story) -> None:
    await story.pod("old", gpus=1)
    more = [{"key": "k", "operator": "Exists"}]
    await story.user.patch(PODS, "old", MergePatch({"spec": {"tolerations": more}}), NS)
    await story.newcomers(9, gpus=1)


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param(_asks_for_more, id="it-asks-for-more"),
        pytest.param(_asks_for_another_node, id="it-asks-for-another-node"),
        pytest.param(_in_a_burst, id="they-came-with-it"),
        pytest.param(_gated, id="it-is-gated"),
        pytest.param(_by_somebody_else, id="another-scheduler-placed-them"),
        pytest.param(_leaves, id="it-left"),
        pytest.param(_of_a_gang, id="gangs-have-an-order-of-their-own"),
        pytest.param(_edited, id="it-asks-for-something-else-by-now"),
    ],
)
def test_no_breach(setup: Any) -> None:
    assert said(setup) == []
