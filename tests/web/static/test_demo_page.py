"""Buttons of a demo's page, in a real browser, on a demo that runs."""

import asyncio
import json
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.cli.demo_process import DemoProcess, running_demo

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

SECONDS = 60_000
LOOKS = 1.0
"""Seconds between two looks of the page at the controls."""


async def _opened(chromium: Browser, demo: DemoProcess) -> tuple[Page, str]:
    url = (await asyncio.to_thread(demo.wait_for, r"^dashboard: (\S+)$"))[1]
    await asyncio.to_thread(demo.wait_for, r"Scheduled fine-tune")
    page = await chromium.new_page(viewport={"width": 1440, "height": 1000})
    await page.goto(url)
    await expect(page.locator("#link")).to_have_text("live", timeout=SECONDS)
    return page, url


async def _stays_refused(page: Page, text: str) -> None:
    refused = page.locator("#demo-said.refused")
    await expect(refused).to_have_text(text, timeout=SECONDS)
    await asyncio.sleep(LOOKS * 2)
    await expect(refused).to_have_text(text)


def _samples(url: str) -> int:
    """Samples of all of the story's time."""
    with urllib.request.urlopen(f"{url}api/snapshot", timeout=30) as answer:
        now = float(json.load(answer)["now"])
    with urllib.request.urlopen(f"{url}api/history?from={now - 86_400}&to={now + 1}", timeout=30) as answer:
        return sum(1 for sample in json.load(answer)["samples"] if sample)


def _elapsed(url: str) -> float:
    with urllib.request.urlopen(f"{url}api/controls", timeout=30) as answer:
        return float(json.load(answer)["elapsed"])


async def _goes_beyond(url: str, moment: float) -> None:
    async with asyncio.timeout(SECONDS / 1000):
        while await asyncio.to_thread(_elapsed, url) <= moment:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)


async def test_buttons_do_what_they_say_and_say_what_they_did(chromium: Browser, tmp_path: Path) -> None:
    with running_demo(tmp_path, "--no-browser") as demo:
        page, url = await _opened(chromium, demo)
        said = page.locator("#demo-said")

        await page.click("#demo-pause")
        await expect(said).to_have_text("Time stands still.", timeout=SECONDS)
        await expect(page.locator("#demo-pause")).to_have_text("Go on")
        stood = await asyncio.to_thread(_elapsed, url)
        await asyncio.sleep(0.5)
        assert await asyncio.to_thread(_elapsed, url) == stood
        await expect(page.locator("#clock")).to_contain_text("paused", timeout=SECONDS)

        await page.click("#demo-next")
        await _goes_beyond(url, stood)
        await expect(page.locator("#demo-pause")).to_have_text("Go on", timeout=SECONDS)
        await page.click("#demo-faster")
        await expect(page.locator("#demo-speed")).to_contain_text("60", timeout=SECONDS)

        await page.select_option("#demo-node", "train-a")
        await page.click("#demo-break")
        await expect(said).to_have_text("GPU 0 of train-a, held by notebook, fell off the bus.", timeout=SECONDS)
        await page.click("#demo-gang")
        await expect(said).to_contain_text("gang-1: 2 workers with 8 H100 each", timeout=SECONDS)
        await page.select_option("#demo-node", "train-b")
        await page.click("#demo-drain")
        await expect(said).to_contain_text("Node train-b is cordoned", timeout=SECONDS)
        await page.click("#demo-pause")
        await asyncio.to_thread(demo.wait_for, r"agent GpuUnhealthy notebook")
        await page.click("#demo-repair")
        await expect(said).to_have_text("Repaired: GPU 0 of train-a.", timeout=SECONDS)
        await page.click("#demo-repair")
        await _stays_refused(page, "no GPU that you broke is broken")

        before = await asyncio.to_thread(_elapsed, url)
        assert await asyncio.to_thread(_samples, url) > 0, "the page has a past"
        await page.click("#demo-restart")
        await asyncio.to_thread(demo.wait_for, r"from the beginning: the same seed, the same story")
        await expect(page.locator("#demo-step")).to_contain_text("/12", timeout=SECONDS)
        await expect(page.locator("#link")).to_have_text("live", timeout=SECONDS)
        assert await asyncio.to_thread(_elapsed, url) < before
        assert demo.lines.count("dashboard: " + url) == 1, "at the same address"
        await page.close()
        assert demo.stop(signal.SIGINT) == 0
    assert demo.left_behind() == []


async def test_another_page_cannot_press_them(tmp_path: Path) -> None:
    with running_demo(tmp_path, "--no-browser") as demo:
        url = (await asyncio.to_thread(demo.wait_for, r"^dashboard: (\S+)$"))[1]
        asked = urllib.request.Request(
            f"{url}api/controls/drain-node",
            data=b"{}",
            headers={"Content-Type": "application/json", "Origin": "https://example.test"},
        )
        with pytest.raises(urllib.error.HTTPError, match="403"):
            await asyncio.to_thread(urllib.request.urlopen, asked)
        assert demo.stop(signal.SIGINT) == 0
