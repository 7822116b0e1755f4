"""The past in a real browser: a range of time, a moment and what changed around it, as permalinks."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.web.pages import showing, small
from ullage.clock import WallClock
from ullage.config.dashboard import DashboardSettings
from ullage.web.history.opening import open_history
from ullage.web.history.records import Change, ChangeSource, FleetSample, PoolSample, QueueSample
from ullage.web.history.writer import HistoryWriter

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR = 3600.0


@contextmanager
def kept(file: Path | None = None) -> Iterator[HistoryWriter]:
    writer = open_history(DashboardSettings(history_file=None if file is None else str(file)), WallClock())
    try:
        yield writer
    finally:
        writer.close()


def written(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def yesterday(now: float) -> list[FleetSample | Change]:
    """An hour of yesterday: at its middle a node went, and its pool had been made smaller."""
    start = now - 24 * HOUR
    pools = (PoolSample(name="h100", nodes=12, gpus=96, allocated=90.0),)
    queue = (QueueSample(namespace="team", workload="Job/night", reason="TooFewGpus", count=7, gpus=56),)
    samples = [
        FleetSample(
            at=start + 60 * one, width=60.0, nodes=12, gpus=96, allocated=90, pending=7, pools=pools, queue=queue
        )
        for one in range(60)
    ]
    changes = [
        Change(
            at=start + 1790,
            source=ChangeSource.SETTINGS,
            reason="PoolChanged",
            kind="NodeProvisioner",
            about="h100",
            note="maxSize 12 → 11",
        ),
        Change(
            at=start + 1810,
            source=ChangeSource.NODE,
            reason="NodeDeleted",
            kind="Node",
            about="h100-11",
            note="<b>gone</b>",
        ),
        Change(
            at=start + 1820,
            source=ChangeSource.DECISION,
            reason="FailedScheduling",
            kind="Pod",
            about="team/x",
            note="no room",
            count=870,
            first=start,
            key="e",
            warning=True,
        ),
    ]
    return [*samples, *changes]


@asynccontextmanager
async def remembered() -> AsyncIterator[tuple[HistoryWriter, float]]:
    with kept() as writer:
        clock = WallClock()
        now = clock.now()
        writer.keep(yesterday(now), now=now, steady=clock.steady())
        yield writer, now - 24 * HOUR + 1800


async def test_a_moment_is_a_permalink_and_tells_what_was_and_what_changed(chromium: Browser) -> None:
    async with (
        remembered() as (writer, at),
        showing(chromium, small, history=writer, link=f"#at={written(at)}") as show,
    ):
        page, details = show.page, show.page.locator("#details")
        await expect(details.locator("h2")).to_have_text(f"{written(at)[:19].replace('T', ' ')} UTC")
        await expect(details).to_contain_text("90 of 96 allocated")
        await expect(details).to_contain_text("Job/night")
        changes = details.locator(".changes li")
        await expect(changes).to_have_count(3)
        await expect(changes.nth(0)).to_contain_text("maxSize 12 → 11")
        await expect(changes.nth(1)).to_contain_text("<b>gone</b>")  # told as text, never as markup
        await expect(changes.nth(2)).to_contain_text(re.compile("870 . since"))
        await details.get_by_role("button", name="1 NodeDeleted").click()
        await expect(details.locator(".changes li:visible")).to_have_count(1)
        await details.locator("select").select_option("3600")
        await expect(page).to_have_url(re.compile("around=3600"))
        await details.get_by_role("button", name="earlier").click()
        await expect(details).to_contain_text("Nothing was recorded at that time")


async def test_what_changed_is_asked_by_the_time_of_day(chromium: Browser) -> None:
    async with remembered() as (writer, at), showing(chromium, small, history=writer) as show:
        page = show.page
        await page.locator("#when-at").fill("tea time")
        await page.locator("#when-go").click()
        await expect(page.locator("#details")).to_be_hidden()
        await page.locator("#when-at").fill(written(at)[:16].replace("T", " "))
        await page.locator("#when-go").click()
        await expect(page.locator("#details")).to_contain_text("h100-11")
        await expect(page).to_have_url(re.compile(re.escape(f"#at={written(at)[:16]}:00Z")))


async def test_a_range_is_a_permalink_and_shows_the_past(chromium: Browser) -> None:
    async with remembered() as (writer, at), showing(chromium, small, history=writer) as show:
        page = show.page
        await page.locator("#range").select_option("24h")
        await expect(page).to_have_url(re.compile("range=24h"))
        await expect(page.locator("#chart-gpus")).to_have_attribute("aria-label", re.compile(r"GPUs from .* to .* UTC"))
        await page.goto(page.url.split("#")[0] + f"#from={written(at - 1800)}&to={written(at + 1200)}")
        await page.reload()
        await expect(page.locator("#gpus-at")).to_contain_text("90 of 96 allocated")
        await expect(page.locator("#queue-at")).to_contain_text("7 pods waiting")
        await page.locator("#chart-gpus").click(position={"x": 100, "y": 40})
        await expect(page.locator("#details")).to_contain_text("What was")


async def test_what_happens_is_recorded_and_survives_a_restart(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    with kept(file) as writer:
        async with showing(chromium, small, history=writer) as show:
            await expect(show.page.locator('[data-node="h100-0"]')).to_have_count(1)
            await asyncio.sleep(1)
            show.world.remove_node("spot-0")
            show.world.pool("h100", thresholds={"min_size": 2}, current=3)
            at = WallClock().now()
            await asyncio.sleep(3)
    with kept(file) as again:
        async with showing(chromium, small, history=again, link=f"#at={written(at)}&around=300") as show:
            details = show.page.locator("#details")
            await expect(details).to_contain_text("NodeDeleted")
            await expect(details).to_contain_text("minSize 0 → 2")
            await expect(details).to_contain_text("allocated")


async def test_without_a_history_nothing_is_offered(chromium: Browser) -> None:
    async with showing(chromium, small) as show:
        await expect(show.page.locator("#when")).to_be_hidden()
        await expect(show.page.locator("#range")).to_be_hidden()


async def test_a_history_that_cannot_be_kept_is_told(chromium: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    with kept() as writer:
        monkeypatch.setattr(HistoryWriter, "trouble", property(lambda _: "No space left on device"))
        async with showing(chromium, small, history=writer) as show:
            await expect(show.page.locator("#history-trouble")).to_contain_text("No space left on device")
