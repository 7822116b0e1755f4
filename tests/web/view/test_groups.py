"""Groups of waiting pods and banners: what on-call sees first, as rows and in a real browser."""

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from playwright.async_api import Browser, expect

from tests.web.pages import decision, showing, small
from tests.web.worlds import NOW, World
from ullage.model.draining import DRAINING_TAINT
from ullage.model.pod import Owner, Pod
from ullage.observe.events import EventReason
from ullage.web.live import LiveView
from ullage.web.view.banners import STUCK_SECONDS, BannerKind, banners
from ullage.web.view.cluster_copy import Suggestion
from ullage.web.view.groups import AGAIN_SHARE, COST_PER_OBJECT, MOST_OBJECTS
from ullage.web.view.model import DashboardModel
from ullage.web.view.patch import ONLY
from ullage.web.view.pending import MOST_SHOWN
from ullage.web.view.rows import BannerRow, NodeRow, PageInfo, PoolRow, Totals, WaitingGroupRow

pytestmark = pytest.mark.asyncio(loop_scope="module")

BUSY = PoolRow(name="p", current=4, most=4)
BLOCKED = PoolRow(name="p", current=1, most=4, blocked="NoCapacity: none left", blocked_until=NOW + 60)


@pytest.mark.parametrize(
    ("pools", "nodes", "wanted", "kinds"),
    [
        pytest.param([BUSY], [], {"p"}, [BannerKind.POOL_AT_MAXIMUM], id="a-full-pool-while-pods-wait"),
        pytest.param([BUSY], [], {"other"}, [], id="a-full-pool-is-fine-while-nobody-waits-that-it-could-serve"),
        pytest.param([BLOCKED], [], {"p"}, [BannerKind.POOL_IN_BACKOFF], id="a-pool-in-back-off"),
        pytest.param([replace(BLOCKED, blocked_until=NOW - 1)], [], {"p"}, [], id="a-back-off-that-is-over"),
        pytest.param([], [NodeRow(name="a", stale=True)], set(), [BannerKind.AGENTS_SILENT], id="a-silent-agent"),
        pytest.param([], [NodeRow(name="a", states="fu")], set(), [BannerKind.GPUS_UNHEALTHY], id="an-ill-gpu"),
        pytest.param(
            [],
            [NodeRow(name="a", draining_since=NOW - STUCK_SECONDS - 1)],
            set(),
            [BannerKind.DRAIN_STUCK],
            id="a-drain-that-does-not-end",
        ),
        pytest.param([], [NodeRow(name="a", draining_since=NOW - 60)], set(), [], id="a-drain-that-just-began"),
    ],
)
async def test_banners(pools: list[PoolRow], nodes: list[NodeRow], wanted: set[str], kinds: list[BannerKind]) -> None:
    found = banners(pools, nodes, wanted, now=NOW)
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


def many_workloads(model: DashboardModel) -> tuple[World, list[Pod]]:
    """Twelve workloads of two shapes on a full cluster, and the pods for which an action is tried."""
    world = World(model.observe)
    for number in range(4):
        world.node(f"n{number}", gpus=8)
        world.pod(f"busy-{number}", gpus=8, node=f"n{number}", ids=tuple(range(8)))
    for number in range(12):
        owner = Owner(kind="ReplicaSet", name=f"wl{number}-5d4f8", uid=f"uid-{number}")
        world.pod(f"wl{number}-5d4f8-bcdfg", gpus=(8, 2)[number % 2], owner=owner)
    tried: list[Pod] = []
    attempt = model._groups._try

    def counted(pod: Pod, tell: Callable[[Suggestion], None]) -> None:
        tried.append(pod)
        attempt(pod, tell)

    model._groups._try = counted
    return world, tried


async def test_groups_that_are_alike_share_a_trial_and_an_idle_cluster_makes_no_more() -> None:
    model = DashboardModel()
    world, tried = many_workloads(model)
    for step in range(600):
        model.patch(PageInfo(), now=NOW + step)
    rows = [row for row in model._groups.table.rows.values() if isinstance(row, WaitingGroupRow)]
    assert len(rows) == 12
    assert all(row.action for row in rows)
    assert len(tried) == 2
    world.node("new", gpus=4)
    for step in range(600, 720):
        model.patch(PageInfo(), now=NOW + step)
    assert len(tried) == 4, "the cluster changed: each is tried once more"


async def test_trials_take_a_bounded_share_of_time_and_none_in_a_cluster_that_is_too_large() -> None:
    model = DashboardModel()
    _, tried = many_workloads(model)
    model.patch(PageInfo(), now=NOW)
    groups = model._groups
    tried.clear()
    for step in range(1, 3000):
        groups.advise(now=NOW + step, version=step, objects=6000)
    assert 2 <= len(tried) <= 3000 * AGAIN_SHARE / (6000 * COST_PER_OBJECT) + 2
    tried.clear()
    for step in range(3000, 3200):
        groups.advise(now=NOW + step, version=step, objects=MOST_OBJECTS + 1)
    assert not tried
    row = next(iter(groups.table.rows.values()))
    assert isinstance(row, WaitingGroupRow)
    assert row.commands[0].startswith("ullage explain pod/")


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


@pytest.mark.parametrize(
    ("asked", "kinds"),
    [
        pytest.param([8], [BannerKind.POOL_AT_MAXIMUM], id="a-pod-for-a-whole-node"),
        pytest.param([16], [], id="a-pod-that-no-node-of-the-pool-could-take"),
        pytest.param([16, 4], [BannerKind.POOL_AT_MAXIMUM], id="one-of-two-could-be-served"),
        pytest.param([], [], id="nobody"),
    ],
)
async def test_a_full_pool_is_told_of_only_if_it_could_serve_who_waits(asked: list[int], kinds: list[str]) -> None:
    model = DashboardModel()
    world = World(model.observe)
    world.pool("p", gpus=8, current=16)
    world.node("a", gpus=8, pool="p")
    world.pod("busy", gpus=8, node="a", ids=tuple(range(8)))
    for gpus in asked:
        world.pod(f"wants-{gpus}-gpus", gpus=gpus)
    model.patch(PageInfo(), now=NOW)
    model.patch(PageInfo(), now=NOW + 5)
    assert [row.kind for row in model._banners.rows.values() if isinstance(row, BannerRow)] == kinds


async def test_gpus_of_all_waiting_pods_are_counted_not_only_of_those_shown() -> None:
    model = DashboardModel()
    world = World(model.observe)
    for number in range(MOST_SHOWN + 100):
        world.pod(f"waits-{number}", gpus=2)
    model.patch(PageInfo(), now=NOW)
    totals = model._totals.rows[ONLY]
    assert isinstance(totals, Totals)
    assert (totals.pending, totals.pending_gpus) == (MOST_SHOWN + 100, 2 * (MOST_SHOWN + 100))


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
