"""Nodes that are not needed go, many at once, and nobody is left without a place."""

import asyncio
from dataclasses import replace

import pytest

from tests.control.draining.stage import GPUS, QUICK, Stage, play
from tests.control.scheduling.stage import NS, an_api
from ullage.config.settings import Settings
from ullage.control.draining.wiring import draining_alone
from ullage.control.provisioning.wiring import ControllerEnvironment
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import DEPLOYMENTS, NODES, PODS
from ullage.model.units import Seconds
from ullage.testing.builders import a_node

pytestmark = pytest.mark.story


def test_pods_are_brought_together_and_the_other_nodes_go() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(8)
        await stage.may_shrink()
        await stage.at_rest(2)
        assert stage.most_draining > 1, "in parallel"
        assert (len(stage.cloud.made), len(stage.cloud.deleted)) == (8, 6), "and nothing was bought for it"
        assert {"NodeDraining", "NodeRemoved"} <= await stage.told("Node")
        assert "PodEvicted" in await stage.told("Pod")
        assert "NodeRemoved" in await stage.told("NodeProvisioner")
        assert await stage.candidates() == []
        assert await stage.condition("ScalingDown") == "False"

    play(story)


def test_nodes_are_candidates_for_as_long_as_the_pool_says() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(4)
        began = stage.now
        await stage.may_shrink()
        await stage.until(stage.candidates, 10)
        await stage.until(stage.tainted, 60)
        assert 30 <= stage.now - began < 45
        await stage.at_rest(1)

    play(story)


def test_no_more_nodes_go_at_once_than_may() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(8)
        await stage.spec(consolidation={"maxScaleDownParallelism": 3, "maxDrainParallelism": 2})
        await stage.may_shrink()
        await stage.at_rest(2)
        assert stage.most_draining == 2

    play(story)


def test_the_limits_of_all_pools_together_hold_too() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(8)
        await stage.may_shrink()
        await stage.at_rest(2)
        assert stage.most_draining == 1

    play(story, settings=replace(QUICK, max_scale_down_parallelism=2, max_drain_parallelism=1))


def test_one_node_after_another() -> None:
    """The way back from parallel drains: a limit of one is one, and not none."""

    async def story(stage: Stage) -> None:
        await stage.one_on_each(4)
        await stage.may_shrink()
        await stage.at_rest(1)
        assert stage.most_draining == 1

    play(story, settings=replace(QUICK, max_scale_down_parallelism=1, max_drain_parallelism=1))


def test_old_nodes_are_drained_into_new_ones() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(4)
        new = (await stage.nodes())[0]
        await stage.api.patch(NODES, new, MergePatch({"metadata": {"labels": {"generation": "new"}}}))
        await stage.may_shrink()
        await stage.at_rest(1)
        assert await stage.nodes() == [new]

    play(story, settings=replace(QUICK, destination_labels={"generation": "new"}))


def test_it_is_said_when_the_limits_let_nobody_go() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(6)
        await stage.deployment("busy", 1, gpus=GPUS)
        await stage.may_shrink()

        async def is_throttled() -> bool:
            return await stage.condition("ScaleDownThrottled") == "True"

        async def scales_down() -> bool:
            return await stage.condition("ScalingDown") == "True"

        await stage.until(is_throttled, 120, every=0.1)
        await stage.until(scales_down, 5, every=0.1)
        await stage.at_rest(1)
        assert stage.most_draining == 2
        assert await stage.condition("ScaleDownThrottled") == "False"

    play(
        story,
        settings=replace(
            QUICK, max_scale_down_parallelism=2, max_drain_parallelism=1, node_delete_delay_after_taint=Seconds(8.0)
        ),
    )


def test_a_long_drain_does_not_hold_up_empty_nodes() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(6)
        await stage.deployment("slow", 1, terminationGracePeriodSeconds=30)
        await stage.deployment("busy", 1, gpus=3)
        (pod,) = [pod for pod in (await stage.api.list(PODS, NS)).items if pod.metadata.labels["app"] == "slow"]
        held = MergePatch({"metadata": {"finalizers": ["example.com/not-yet"]}})
        await stage.api.patch(PODS, pod.metadata.name, held, NS)
        await stage.spec(consolidation={"maxDrainParallelism": 1, "maxScaleDownParallelism": 2})
        began = stage.now
        await stage.may_shrink()
        await stage.has(2, 200)
        assert stage.now - began < 100
        assert stage.most_draining <= 2

    play(story)


@pytest.mark.parametrize(
    ("fields", "stay"),
    [
        pytest.param({"minSize": 5}, 5, id="smallest-size"),
        pytest.param({"minSize": 0, "minGPUUtilizationPercent": 40}, 5, id="in-use-enough"),
        pytest.param({"minSize": 0}, 2, id="none"),
    ],
)
def test_the_thresholds_of_the_pool_are_floors(fields: dict[str, int], stay: int) -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(8)
        await stage.spec(**fields)
        await stage.at_rest(stay)

    play(story)


def test_empty_nodes_a_pool_wants_to_have_stay() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(5)
        await stage.deployment("busy", 1, gpus=GPUS)
        await stage.spec(minSize=0, minUnutilizedGPUNodes=2)
        await stage.at_rest(3)

    play(story)


def test_one_loop_removes_nodes_and_the_policy_says_which() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(4)
        await stage.spec(consolidation={"policy": "EmptyOnly"}, minSize=0, minGPUUtilizationPercent=80)
        await asyncio.sleep(300)
        assert (len(await stage.nodes()), await stage.candidates()) == (4, []), "nobody is empty"
        await stage.spec(consolidation={"policy": "Drain"}, minGPUUtilizationPercent=0)
        await stage.until(stage.candidates, 20)
        await stage.spec(consolidation={"policy": "EmptyOnly"})

        async def nothing_of_ours() -> bool:
            return not await stage.candidates()

        await stage.until(nothing_of_ours, 20)
        await stage.spec(consolidation={"policy": "Drain"})
        await stage.at_rest(1)

    play(story)


@pytest.mark.parametrize("left_alone", ["paused", "recommendOnly"])
def test_a_pool_that_is_left_alone(left_alone: str) -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(3)
        await stage.spec(minSize=0, **{left_alone: True})
        await asyncio.sleep(300)
        assert (len(await stage.nodes()), await stage.candidates()) == (3, [])

    play(story)


def test_disruption_budgets_are_never_broken() -> None:
    """Watched all the time: see the stage."""

    async def story(stage: Stage) -> None:
        await stage.one_on_each(6)
        await stage.budget("web", maxUnavailable=1)
        await stage.may_shrink()
        await stage.at_rest(2, 2400)

    play(story)


def test_nodes_that_share_a_budget_do_not_wait_for_their_time_one_after_the_other() -> None:
    """Their pods go one by one; how long they have been unneeded is counted for all of them together."""

    async def story(stage: Stage) -> None:
        await stage.one_on_each(6)
        await stage.budget("web", maxUnavailable=1)
        await asyncio.sleep(5)
        began = stage.now
        await stage.may_shrink()
        await stage.has(2)
        assert stage.now - began < 30 + 4 * 15, "30 s once, and a few for each node"
        await stage.at_rest(2)
        assert await stage.notes("NodeNotRemoved") == []

    play(story)


def test_a_node_that_is_needed_again_starts_anew() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(2)
        await stage.may_shrink()
        await stage.until(stage.candidates, 10)
        await asyncio.sleep(20)
        await stage.deployment("more", 4)

        async def nothing_of_ours() -> bool:
            return not await stage.candidates()

        await stage.until(nothing_of_ours, 20)
        await stage.api.delete(DEPLOYMENTS, "more", NS)
        began = await stage.until(stage.candidates, 20)
        await stage.until(stage.tainted, 60)
        assert stage.now - began > 25, "it had waited before, in vain"
        await stage.at_rest(1)

    play(story)


def test_nodes_of_nobody_are_left_to_their_owner_empty_and_cordoned() -> None:
    async def story(stage: Stage) -> None:
        for name in ("a", "b", "c"):
            await stage.api.create(NODES, a_node(name))
        await stage.deployment("web", 3, gpus=0)
        await stage.until(lambda: _cordoned(stage, 2), 200)
        await stage.served()
        await asyncio.sleep(120)
        assert await _cordoned(stage, 2), "one has to stay"
        assert await stage.tainted() == []
        assert await stage.candidates() == []
        assert "NodeDrained" in await stage.told("Node")
        for node in (await stage.api.list(NODES)).items:
            assert bool(await stage.pods_on(node.metadata.name)) != node.spec.unschedulable

    play(story, settings=replace(QUICK, drain_unmanaged=True, scale_down_unneeded_time=Seconds(30.0)))


async def _cordoned(stage: Stage, count: int) -> bool:
    return sum(node.spec.unschedulable for node in (await stage.api.list(NODES)).items) == count


def test_nodes_of_nobody_are_not_touched_unless_it_is_said() -> None:
    async def story(stage: Stage) -> None:
        for name in ("a", "b", "c"):
            await stage.api.create(NODES, a_node(name))
        await stage.deployment("web", 3, gpus=0)
        await asyncio.sleep(300)
        assert await _cordoned(stage, 0)
        assert await stage.candidates() == []
        assert stage.drainings[-1].core.decided is None, "nothing was planned"

    play(story, settings=replace(QUICK, scale_down_unneeded_time=Seconds(30.0)))


def test_draining_goes_on_where_nothing_is_bought() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(4)
        stage.controller.crash()
        await stage.may_shrink()
        host = ControllerEnvironment(providers={"kwok": stage.cloud})
        alone = draining_alone(an_api(stage.server, 5), Settings(draining=QUICK), stage.clock, seed=5, host=host)
        running = asyncio.ensure_future(alone.run())
        await stage.at_rest(1)
        await stage.deployment("more", 8, wait=False)
        await asyncio.sleep(120)
        assert len(await stage.nodes()) == 1, "nobody buys"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    play(story)


def test_an_old_name_is_understood_and_warned_of() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(5)
        limits = {"maxScaleDownParallelism": None, "maxEmptyBulkDelete": 2, "maxDrainParallelism": 1}
        await stage.spec(consolidation=limits, minSize=0)
        await stage.at_rest(2)
        assert stage.most_draining == 1
        assert "DeprecatedField" in await stage.told("NodeProvisioner")

    play(story)


def test_nothing_is_planned_while_nothing_happens() -> None:
    async def story(stage: Stage) -> None:
        await stage.one_on_each(4)
        await stage.may_shrink()
        await stage.at_rest(1)
        before = stage.plans()
        assert before > 3
        await asyncio.sleep(1200)
        assert stage.plans() - before < 3

    play(story)
