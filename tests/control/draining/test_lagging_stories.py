"""The controller manager lags or stands still: nobody is drained into room that is needed as soon as it goes on."""

import asyncio

import pytest

from tests.control.draining.stage import Stage, play

pytestmark = [pytest.mark.story, pytest.mark.fault]

NEEDED = 2
"""Nodes, by the pods there are to be: eight with one of four GPUs each."""


async def _never_too_few(stage: Stage, seconds: float) -> None:
    """For so long, nodes that take pods are never fewer than the pods need that are to be there."""
    until = stage.now + seconds
    while stage.now < until:
        left = set(await stage.nodes()) - set(await stage.tainted())
        assert len(left) >= NEEDED, f"{stage.now:.0f} s: only {sorted(left)} would take pods"
        await asyncio.sleep(0.5)


async def _back_at_work(stage: Stage) -> None:
    stage.actors.let_controllers_go_on()
    await stage.at_rest(NEEDED)
    assert len(stage.cloud.made) == 8, "nothing was bought for it"


def test_nobody_is_evicted_for_whom_there_is_no_room_when_it_goes_on() -> None:
    """Its counts are those of before: by them, everybody is there."""

    async def story(stage: Stage) -> None:
        await stage.one_on_each(8)
        stage.actors.stop_controllers()
        await stage.may_shrink()
        await _never_too_few(stage, 900)
        await _back_at_work(stage)

    play(story)


@pytest.mark.parametrize("apart", [pytest.param(False, id="of-one-owner"), pytest.param(True, id="of-an-owner-each")])
def test_a_controller_that_starts_anew_counts_them_again(apart: bool) -> None:
    """Whom it had evicted before is to be seen by who is missing: alike those who are there, or as the owner says."""

    async def story(stage: Stage) -> None:
        await stage.one_on_each(8, apart=apart)
        stage.actors.stop_controllers()
        await stage.may_shrink()
        for _ in range(6):
            await _never_too_few(stage, 60)
            stage.controller.crash()
            stage.controller.start()
        await _never_too_few(stage, 300)
        await _back_at_work(stage)

    play(story)
