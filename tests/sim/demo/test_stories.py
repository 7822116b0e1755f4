"""The other stories, the catalogue, and that a story is told the same way each time."""

import os
import sys
from subprocess import run

import pytest

from tests.sim.demo.onlooker import NS, Onlooker, look_on
from ullage.cli.demo import SCENARIOS
from ullage.errors import UserError
from ullage.kube.client.resources import NODE_CLAIMS, NODE_PROVISIONERS, PODS
from ullage.sim.demo.catalog import STORIES, story_named
from ullage.sim.demo.contention import CROWDING
from ullage.sim.demo.karpenter import KARPENTER_STORY
from ullage.sim.demo.scale_down import EBB
from ullage.sim.demo.story import Story
from ullage.sim.demo.tour import TOUR

A_SHORT_TELLING = """
import structlog
from tests.sim.demo.onlooker import look_on
from ullage.sim.demo.screen import line_of
from ullage.sim.demo.tour import TOUR
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
async def seen(eye):
    await eye.world.sleep_until(1000)
for told in look_on(TOUR, seen, seed={seed}):
    print(line_of(told))
"""


@pytest.mark.parametrize("story", STORIES.values(), ids=lambda story: story.name)
def test_moments_are_in_order_and_worth_telling(story: Story) -> None:
    times = [story_step.at for story_step in story.story_steps]
    assert times == sorted(times)
    assert len({story_step.name for story_step in story.story_steps}) == len(story.story_steps)
    assert all(len(story_step.caption) > 20 for story_step in story.story_steps)
    assert story.seconds / 30 <= 120, "told within two minutes at the default speed"


def test_the_command_line_knows_the_catalogue() -> None:
    assert {name: story.summary for name, story in STORIES.items()} == SCENARIOS
    assert len(STORIES) >= 3


def test_a_story_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="tour, crowding, ebb, fleet, karpenter, vms"):
        story_named("turo")


@pytest.mark.story
def test_crowding_a_gang_waits_whole_gets_in_whole_and_makes_room_whole() -> None:
    at = {story_step.name: story_step.at for story_step in CROWDING.story_steps}

    async def seen(eye: Onlooker) -> None:
        await eye.world.sleep_until(at["between"])
        waiting = await eye.pods("pair")
        assert len(waiting) == 2
        assert await eye.leased_to(*waiting) == []
        await eye.world.sleep_until(at["between"] + 30)
        assert (await eye.pod("quick")).spec.node_name, "small work gets in meanwhile"

        async def together() -> bool:
            there = [pod for pod in await eye.pods("pair") if pod.spec.node_name]
            assert len(there) in (0, 2), "a gang in part"
            return len(there) == 2

        await eye.until(together, within=600)
        first = {pod.metadata.uid for pod in await eye.pods("pair")}
        await eye.world.sleep_until(at["urgent"])

        async def urgent() -> bool:
            return sum(bool(pod.spec.node_name) for pod in await eye.pods("release")) == 3

        await eye.until(urgent, within=120)
        assert not first & {pod.metadata.uid for pod in await eye.pods("pair")}, "preempted whole"
        assert len(await eye.events("Preempted")) == 2
        assert (await eye.world.api.get(NODE_PROVISIONERS, "fleet")).status.current_size == 4

    look_on(CROWDING, seen)


@pytest.mark.story
def test_ebb_nodes_go_in_parallel_and_a_budget_that_allows_nothing_is_kept() -> None:
    at = {story_step.name: story_step.at for story_step in EBB.story_steps}

    async def seen(eye: Onlooker) -> None:
        await eye.world.sleep_until(at["ebb"])
        ledger = {pod.metadata.uid for pod in await eye.pods("ledger")}

        async def fewer() -> bool:
            assert await eye.budgets_kept()
            assert {pod.metadata.uid for pod in await eye.pods("ledger")} == ledger
            return not await eye.draining() and len(await eye.nodes()) <= 6

        await eye.until(fewer, within=at["stubborn"] - at["ebb"])
        assert eye.most_draining >= 3
        await eye.world.sleep_until(at["stubborn"])

        async def ledger_moved() -> bool:
            await eye.draining()
            return {pod.metadata.uid for pod in await eye.pods("ledger")} != ledger

        await eye.until(ledger_moved, within=at["flood"] - at["stubborn"])
        await eye.world.sleep_until(at["flood"])
        least = len(await eye.nodes())
        assert least <= 4

        async def grown() -> bool:
            return sum(bool(pod.spec.node_name) for pod in await eye.pods("chat")) == 30

        await eye.until(grown, within=400)
        assert len(await eye.nodes()) > least

    look_on(EBB, seen)


@pytest.mark.story
def test_a_story_goes_on_though_onlookers_meddle_with_it() -> None:
    at = {story_step.name: story_step.at for story_step in TOUR.story_steps}

    async def seen(eye: Onlooker) -> None:
        api = eye.world.api
        await eye.world.sleep_until(at["claims"] + 60)
        await api.delete(PODS, "notebook", NS)
        await api.delete(PODS, "fine-tune", NS)
        await eye.world.sleep_until(at["restart"] + 60)
        assert (await eye.pod("fine-tune")).spec.node_name

    told = look_on(TOUR, seen)
    skipped = [one.text for one in told if one.word == "Skipped"]
    assert [text for text in skipped if "fine-tune" in text], skipped
    assert [text for text in skipped if "notebook" in text], skipped


def told(seed: int, hashes: str) -> str:
    """A short telling by a program of its own."""
    environment = os.environ | {"PYTHONHASHSEED": hashes}
    program = [sys.executable, "-c", A_SHORT_TELLING.format(seed=seed)]
    return run(program, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.full  # every run compares bytes of a day: tests/sim/world/test_determinism.py
@pytest.mark.story
def test_the_same_seed_tells_the_same_story_whatever_hashes_are() -> None:
    first, again = told(1, "1"), told(1, "2")
    assert first == again
    assert "NodesLaunched" in first
    assert TOUR.story_steps[0].caption in first


@pytest.mark.full
@pytest.mark.story
def test_another_seed_tells_another_story() -> None:
    assert told(1, "1") != told(2, "1")


@pytest.mark.story
def test_karpenter_buys_for_those_who_wait_and_nobody_else_gets_it() -> None:
    at = {story_step.name: story_step.at for story_step in KARPENTER_STORY.story_steps}

    async def seen(eye: Onlooker) -> None:
        async def claims() -> list[str]:
            return [one.metadata.name for one in (await eye.world.api.list(NODE_CLAIMS)).items]

        async def bound(name: str) -> bool:
            return bool((await eye.pod(name)).spec.node_name)

        await eye.world.sleep_until(at["request"] + 5)
        smart = (await eye.world.api.list(PODS, "tensor-fusion-system")).items
        assert len(smart) == 1
        await eye.world.sleep_until(at["gang"])
        assert await bound("train")
        assert not await bound("rival")
        (waits,) = (await eye.pod("rival")).status.conditions
        assert "1 node(s) had untolerated taint(s)" in waits.message, "it was tried on the new node"
        await eye.world.sleep_until(at["large"])
        assert await bound("duo-0")
        assert await bound("duo-1")
        assert len(await claims()) == 3
        await eye.world.sleep_until(at["orphan"])
        assert "LargerThanAnyNode" in (await eye.pod("huge")).metadata.annotations["gpu.scheduling/capacity-failure"]
        await eye.world.sleep_until(at["empty"])
        assert await bound("heir")
        assert len(await claims()) == 4, "the node that came for another serves the heir"
        triggered = [one["regarding"]["name"] for one in await eye.events("ScaleUpTriggered")]
        assert "heir" not in triggered, "nothing was asked for it"
        assert not await bound("rival")
        await eye.world.sleep_until(at["yours"])
        assert not await claims(), "Karpenter took its empty nodes away"
        assert not (await eye.world.api.list(PODS, "tensor-fusion-system")).items

    look_on(KARPENTER_STORY, seen)
