"""Clocks of agents decide nothing: a report is as old as the scheduler knows it to be."""

import asyncio

import pytest

from tests.control.scheduling.fleet import submit
from tests.control.scheduling.stage import NS, Setting, Stage, play

pytestmark = pytest.mark.story


@pytest.mark.parametrize(
    "ahead", [3600.0, -120.0, -86400.0], ids=["an-hour-ahead", "two-minutes-behind", "a-day-behind"]
)
def test_a_node_whose_agent_has_a_wrong_clock_is_used_while_it_reports_and_not_after(ahead: float) -> None:
    async def story(stage: Stage) -> None:
        stage.agents_ahead = ahead
        await asyncio.sleep(70)
        await submit(stage.api, NS, "first", 1)
        await stage.until(stage.bound, 10)
        stage.silent.add("node-00")
        await asyncio.sleep(130)
        await submit(stage.api, NS, "second", 1)
        await asyncio.sleep(20)
        assert set(await stage.bound()) == {"first"}
        assert "InventoryStale" in (await stage.condition("second")).message
        stage.silent.clear()
        await asyncio.sleep(45)
        assert set(await stage.bound()) == {"first", "second"}

    play(Setting(nodes=1), story)
