"""Two controllers, of which one leads: whatever happens to either, only the leader drains, and nothing is left over."""

import asyncio
import random

import pytest

from tests.control.draining.stage import QUICK, Stage, play
from tests.control.provisioning.test_handover_stories import freeze_before_the_cloud_is_asked, trouble, two_replicas

pytestmark = [pytest.mark.story, pytest.mark.fault]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 30))])
def test_only_the_leader_drains(seed: int) -> None:
    async def story(stage: Stage) -> None:
        rng = random.Random(seed)
        await stage.one_on_each(6)
        await stage.budget("web", maxUnavailable=2)
        async with two_replicas(stage, seed, QUICK) as (near, pair, weathers):
            troubling = asyncio.ensure_future(trouble(pair, weathers, rng))
            for one, network in zip(pair, weathers, strict=True):
                freeze_before_the_cloud_is_asked(one, network, rng)
            await stage.may_shrink()
            await stage.has(2, 7200)
            troubling.cancel()
            await asyncio.gather(troubling, return_exceptions=True)
            for one, network in zip(pair, weathers, strict=True):
                network.partitioned = False
                if not one.alive:
                    one.start()
            await stage.at_rest(2)
            assert near.fouls == []
            assert near.asked
        assert (len(stage.cloud.made), len(stage.cloud.deleted)) == (6, 4)

    play(story, seed=seed + 1)
