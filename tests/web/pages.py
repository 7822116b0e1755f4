"""Pages of made-up worlds in a browser, for tests that look at them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Browser, Page, ViewportSize, expect

from tests.web.chromium import Complaints
from tests.web.worlds import World
from ullage.clock import WallClock
from ullage.model.fact_event import ObjectKey
from ullage.model.provisioner import DELETION_TAINT
from ullage.observe.events import EventMessage, EventReason, ObjectReference
from ullage.observe.probes import ListenAddress
from ullage.web.history.writer import HistoryWriter
from ullage.web.live import LiveView, served

WIDE = ViewportSize(width=1440, height=1000)

expect.set_options(timeout=20_000)  # a machine may do much else at the same time


@dataclass
class Show:
    """A page that shows a world."""

    page: Page
    view: LiveView
    world: World

    async def box(self, node: str) -> dict[str, float]:
        """Where the tile of a node is on the screen."""
        found: dict[str, float] = await self.page.evaluate(
            "name => { const box = document.getElementById('map').boxOf(name); return {x: box.x, y: box.y}; }", node
        )
        return found

    async def click_node(self, node: str) -> None:
        box = await self.box(node)
        await self.page.mouse.click(box["x"] + 20, box["y"] + 12)


@asynccontextmanager
async def showing(
    chromium: Browser,
    make: Callable[[World, LiveView], None],
    *,
    history: HistoryWriter | None = None,
    link: str = "",
    **how: Any,
) -> AsyncIterator[Show]:
    """The page of a world, opened by a link. Whatever it complains about fails the test."""
    clock = WallClock()
    view = LiveView(clock, title="test", history=history, history_interval=1.0)
    world = World(view.observe, clock.now())
    make(world, view)
    view.all_observed()
    complaints = Complaints()
    async with served(view, ListenAddress("127.0.0.1", 0)) as url:
        page = await chromium.new_page(**({"viewport": WIDE} | how))
        try:
            complaints.listen(page)
            await page.goto(f"{url}{link}")
            await expect(page.locator("#link")).to_have_text("live")
            yield Show(page, view, world)
        finally:
            await page.close()
    assert complaints == []


def small(world: World, view: LiveView) -> None:
    """Two pools, every state there is, and pods that wait."""
    world.pool("h100", price=98.32, current=3, target=4, coming=1)
    world.pool("spot", price=32.0, current=1, target=1, coming=0)
    for number in range(3):
        world.node(f"h100-{number}", pool="h100")
    world.node("spot-0", pool="spot")
    world.node("lonely", gpus=4, islands=1)
    world.pod("train", gpus=4, node="h100-0", ids=(0, 1, 2, 3))
    world.pod("part", node="h100-1", ids=(0,), gpu_share=250)
    world.lease("h100-1", 7, "nobody")
    world.break_gpu("h100-2", 5)
    world.taint("spot-0", DELETION_TAINT, world.now + 300)
    world.pod("huge", gpus=16)
    world.pod("gated", gpus=1, gated=True)
    view.record(decision("placed", EventReason.SCHEDULED))


def decision(note: str, reason: EventReason, pod: str = "train") -> EventMessage:
    return EventMessage(ObjectReference("Pod", ObjectKey("team", pod)), reason, note)


def label(page: Page, node: str) -> Any:
    return page.locator(f'[data-node="{node}"]')
