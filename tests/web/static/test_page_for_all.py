"""The page for those who listen, have a narrow window, or long names: nobody is left out, and nothing falls apart."""

import re
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.web.pages import decision, label, showing, small
from ullage.observe.events import EventReason

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG = "recommendation-embeddings-nightly-retraining-with-a-long-name-7f9c8b6d54-x2x9q"


async def test_who_listens_gets_landmarks_names_and_news(chromium: Browser) -> None:
    async with showing(chromium, small) as show:
        page = show.page
        await expect(page.get_by_role("main")).to_have_count(1)
        await expect(page.get_by_role("banner")).to_have_count(1)
        for name in ("Key figures", "GPU map", "Waiting pods", "Decisions", "h100"):
            await expect(page.get_by_role("region", name=name, exact=True)).to_have_count(1)
        log = page.get_by_role("log")
        await expect(log).to_have_attribute("aria-live", "polite")
        await expect(page.get_by_role("img", name=re.compile("^GPUs from .* to .* UTC"))).to_have_count(1)
        nameless = await page.evaluate(
            "() => [...document.querySelectorAll('button, input, select')].filter(one => "
            "!(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length)).length"
        )
        assert nameless == 0


async def test_only_what_is_news_is_read_out(chromium: Browser) -> None:
    """Figures change all the time: who listens asks for them."""
    async with showing(chromium, small) as show:
        spoken = await show.page.evaluate(
            "() => [...document.querySelectorAll('[aria-live], [role=status], [role=log], [role=alert], output')]"
            ".map(one => one.id)"
        )
        assert spoken == ["link", "caption", "trouble", "history-trouble", "decisions-log"]


async def test_every_item_of_a_list_is_in_a_list(chromium: Browser) -> None:
    async with showing(chromium, small) as show:
        await expect(show.page.locator("#decisions li")).to_have_count(1)
        astray = await show.page.evaluate(
            "() => [...document.querySelectorAll('li')].filter(one => !one.parentElement.matches('ul, ol') "
            "|| one.parentElement.hasAttribute('role')).length"
        )
        assert astray == 0


@pytest.mark.parametrize("width", [360, 700, 1024])
async def test_a_narrow_window_needs_no_scrolling_sideways(chromium: Browser, width: int) -> None:
    async with showing(chromium, small, viewport={"width": width, "height": 800}) as show:
        await expect(label(show.page, "lonely")).to_have_count(1)
        sideways = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await show.page.evaluate(sideways) <= 0
        await show.page.locator('[data-pod="team/huge"]').click()
        await expect(show.page.locator("#details")).to_be_visible()
        assert await show.page.evaluate(sideways) <= 0


@pytest.mark.parametrize("width", [360, 1440])
async def test_a_long_name_stays_on_one_line(chromium: Browser, width: int) -> None:
    async with showing(chromium, small, viewport={"width": width, "height": 800}) as show:
        page = show.page
        show.view.record(decision("to h100-0", EventReason.SCHEDULED, LONG))
        show.world.pod(LONG, gpus=16)
        named = page.locator("#decisions li", has_text=LONG)
        await expect(named.get_by_role("button")).to_have_attribute("title", f"team/{LONG}")
        short = page.locator("#decisions li", has_text="team/train")
        heights = [await one.evaluate("one => one.offsetHeight") for one in (named, short)]
        assert abs(heights[0] - heights[1]) <= 2, "but for the line between them"
        await expect(page.locator(f'[data-pod="team/{LONG}"]')).to_be_visible()
        assert await page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize(
    ("islands", "drawn"),
    [
        pytest.param([0, 0, 1, 1], 2, id="two-islands-of-two"),
        pytest.param([0, 0, 0, 0], 1, id="all-linked"),
        pytest.param(None, 0, id="nothing-links-them"),
    ],
)
async def test_islands_are_drawn_where_there_are_some(islands: list[int] | None, drawn: int, chromium: Browser) -> None:
    """Around the tile, around each GPU, and around each island there is a rounded box."""
    row: dict[str, Any] = {"name": "n", "states": "ffff"} | ({"islands": islands} if islands else {})
    async with showing(chromium, small) as show:
        boxes: int = await show.page.evaluate(
            """async (row) => {
                const { paintTile, SIZES } = await import("/static/paint.js");
                const pen = document.createElement("canvas").getContext("2d");
                let boxes = 0;
                const round = pen.roundRect.bind(pen);
                pen.roundRect = (...place) => { boxes += 1; round(...place); };
                paintTile(pen, { x: 0, y: 0, width: 190, height: 60 }, row, {}, SIZES.large);
                return boxes;
            }""",
            row,
        )
        assert boxes - 1 - len(row["states"]) == drawn
