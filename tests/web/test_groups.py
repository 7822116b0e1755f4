"""Groups of waiting pods and banners: what on-call sees first, as rows and in a real browser."""

import re

import pytest
from msgspec.structs import replace
from playwright.async_api import Browser, expect

from tests.web.pages import decision, showing, small
from tests.web.worlds import NOW, World
from ullage.model.draining import DRAINING_TAINT
from ullage.model.pod import Owner
from ullage.observe.events import EventReason
from ullage.web.live import LiveView
from ullage.web.view.banners import STUCK_SECONDS, BannerKind, banners
from ullage.web.view.model import DashboardModel
from ullage.web.view.rows import BannerRow, NodeRow, PageInfo, PoolRow, WaitingGroupRow

pytestmark = pytest.mark.asyncio(loop_scope="module")

BUSY = PoolRow(name="p", current=4, most=4)
BLOCKED = PoolRow(name="p", current=1, most=4, blocked="NoCapacity: none left", blocked_until=NOW + 60)


@pytest.mark.parametrize(
    ("pools", "nodes", "waiting", "kinds"),
    [
        pytest.param([BUSY], [], 3, [BannerKind.POOL_AT_MAXIMUM], id="a-full-pool-while-pods-wait"),
        pytest.param([BUSY], [], 0, [], id="a-full-pool-is-fine-while-nobody-waits"),
        pytest.param([BLOCKED], [], 1, [BannerKind.POOL_IN_BACKOFF], id="a-pool-in-back-off"),
        pytest.param([replace(BLOCKED, blocked_until=NOW - 1)], [], 1, [], id="a-back-off-that-is-over"),
        pytest.param([], [NodeRow(name="a", stale=True)], 0, [BannerKind.AGENTS_SILENT], id="a-silent-agent"),
        pytest.param([], [NodeRow(name="a", states="fu")], 0, [BannerKind.GPUS_UNHEALTHY], id="an-ill-gpu"),
        pytest.param(
            [],
            [NodeRow(name="a", draining_since=NOW - STUCK_SECONDS - 1)],
            0,
            [BannerKind.DRAIN_STUCK],
            id="a-drain-that-does-not-end",
        ),
        pytest.param([], [NodeRow(name="a", draining_since=NOW - 60)], 0, [], id="a-drain-that-just-began"),
    ],
)
async def test_banners(pools: list[PoolRow], nodes: list[NodeRow], waiting: int, kinds: list[BannerKind]) -> None:
    found = banners(pools, nodes, waiting, now=NOW)
    assert [one.kind for one in found] == kinds
    assert all(one.action for one in found)


def crowded(world: World) -> None:
    """Three workloads with 369 waiting pods on 260 nodes that are full."""
    for number in range(260):
        world.node(f"n{number:03}", gpus=8)
        world.pod(f"busy-{number}", gpus=8, node=f"n{number:03}", ids=tuple(range(8)))
    for number in range(369):
        workload = ("train", "serve", "batch")[number % 3]
        owner = Owner(kind="ReplicaSet", name=f"{workload}-5d4f8", uid=f"uid-{workload}")
        world.pod(f"{workload}-5d4f8-{number:05}", gpus=(8, 2, 16)[number % 3], owner=owner)


async def test_369_pods_of_three_workloads_are_three_rows_with_an_action_each() -> None:
    model = DashboardModel()
    crowded(World(model.observe))
    for step in range(40):
        model.patch(PageInfo(), now=NOW + step)
    rows = [row for row in model._groups.table.rows.values() if isinstance(row, WaitingGroupRow)]
    assert sorted((row.workload, row.count, bool(row.action)) for row in rows) == [
        ("Deployment/batch", 123, True),
        ("Deployment/serve", 123, True),
        ("Deployment/train", 123, True),
    ]
    assert next(row for row in rows if row.workload == "Deployment/batch").reason == "NodeTooSmall"


async def test_a_banner_goes_when_its_cause_is_gone() -> None:
    model = DashboardModel()
    world = World(model.observe)
    world.node("a")
    world.taint("a", DRAINING_TAINT, NOW - 2 * STUCK_SECONDS)
    model.patch(PageInfo(), now=NOW)
    assert [row.kind for row in model._banners.rows.values() if isinstance(row, BannerRow)] == [BannerKind.DRAIN_STUCK]
    world.put_node(replace(world.nodes["a"], taints=()))
    model.patch(PageInfo(), now=NOW + 5)
    assert not model._banners.rows


def waiting_in_two_namespaces(world: World, view: LiveView) -> None:
    small(world, view)
    crowded(world)
    view.record(decision("it was moved", EventReason.PREEMPTED, "moved"))


async def test_groups_filters_and_permalinks_in_a_browser(chromium: Browser) -> None:
    async with showing(chromium, waiting_in_two_namespaces) as show:
        page = show.page
        batch = page.locator("#groups li", has_text="Deployment/batch")
        await expect(batch).to_have_count(1)
        await expect(batch).to_contain_text("123 pods")
        await expect(batch.locator(".action")).to_contain_text(re.compile("Next: .+"))
        await expect(page.locator("#waiting")).to_be_hidden()
        await expect(page.locator(".banner", has_text="GpusUnhealthy")).to_be_visible()

        await page.select_option("#filter-reason", "NodeTooSmall")
        await expect(page.locator("#groups li", has_text="Deployment/serve")).to_have_count(0)
        await expect(batch).to_have_count(1)
        assert "reason=NodeTooSmall" in page.url

        await page.click("#one-by-one")
        await expect(page.locator("#waiting")).to_be_visible()

        await page.fill("#seek", "it was moved")
        await expect(page.locator("#decisions li")).to_have_count(1)

        await show.click_node("n000")
        await expect(page.locator("#details-title")).to_have_text("n000")
        assert "node=n000" in page.url
        link = page.url

        again = await chromium.new_page()
        await again.goto(link)
        await expect(again.locator("#details-title")).to_have_text("n000")
        await expect(again.locator("#filter-reason")).to_have_value("NodeTooSmall")
        await expect(again.locator("#seek")).to_have_value("it was moved")
        await again.close()
