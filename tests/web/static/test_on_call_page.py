"""Filters, colours, order and views of the page in a real browser, each as a permalink."""

import re

import pytest
from playwright.async_api import Browser, expect

from tests.web.pages import label, showing, small
from tests.web.worlds import World
from ullage.model.claim import DeviceRequest
from ullage.model.draining import DRAINING_TAINT
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.karpenter import NodePool, ObservedCondition, Tristate
from ullage.model.pod import Owner
from ullage.model.quota import Quota, QuotaLimits
from ullage.model.units import Instant
from ullage.web.live import LiveView

pytestmark = pytest.mark.asyncio(loop_scope="module")


def busy(world: World, view: LiveView) -> None:
    """Something of everything on-call looks at."""
    small(world, view)
    world.pod("chat-x", gpus=2, node="h100-1", ids=(1, 2), owner=Owner("ReplicaSet", "chat-7c9f", "u"))
    for number in range(3):
        world.pod(f"batch-{number}", gpus=8, owner=Owner("Job", "batch", "u"), priority=number)
    world.claim("big", DeviceRequest(count=8), gang="big", gang_min_member=2)
    for number in range(2):
        world.pod(f"big-{number}", claim_template="big")
    key = ObjectKey("team", "gpus")
    view.observe(Added(key, Quota(key=key, uid="q", generation=1, limits=QuotaLimits(gpus=8))))
    world.taint("lonely", DRAINING_TAINT, world.now - 1200)
    world.pod("stay", gpus=1, node="lonely", ids=(0,), deleting=True)
    world.pod("urgent", gpus=4, priority=100, nominated="lonely")
    unprotected = ObservedCondition(Tristate.TRUE, "NoTaint", "rivals may take its nodes", Instant(world.now))
    pool = NodePool(name="gpu", uid="p", generation=1, deleting=False, unprotected=unprotected)
    view.observe(Added(ObjectKey("", "gpu"), pool))


@pytest.mark.parametrize(
    ("link", "shown", "gone"),
    [
        pytest.param("#state=unhealthy", "h100-2", "h100-0", id="state"),
        pytest.param("#state=leaving", "spot-0", "h100-0", id="leaving"),
        pytest.param("#in=spot", "spot-0", "h100-0", id="pool"),
        pytest.param("#in=none", "lonely", "h100-0", id="no-pool"),
        pytest.param("#owner=Deployment/chat", "h100-1", "h100-0", id="owner"),
        pytest.param("#namespace=team", "h100-0", "spot-0", id="namespace"),
    ],
)
async def test_filters_of_the_map_are_permalinks(chromium: Browser, link: str, shown: str, gone: str) -> None:
    async with showing(chromium, busy, link=link) as show:
        await expect(label(show.page, shown)).to_have_count(1)
        await expect(label(show.page, gone)).to_have_count(0)
        await show.page.locator("#filter-clear").click()
        await expect(label(show.page, gone)).to_have_count(1)
        assert "#" not in show.page.url


async def test_filters_narrow_waiting_pods_and_the_queue(chromium: Browser) -> None:
    async with showing(chromium, busy) as show:
        page = show.page
        await page.locator("#filter-owner").select_option("Job/batch")
        await expect(page).to_have_url(re.compile("owner=Job/batch"))
        await expect(page.locator("#groups li")).to_have_count(1)
        await expect(page.locator("#view-table tbody tr")).to_have_count(3)
        await page.reload()
        await expect(page.locator("#view-table tbody tr")).to_have_count(3)
        await expect(page.locator("#filter-owner")).to_have_value("Job/batch")
        await page.locator("#filter-clear").click()
        await page.locator("#filter-reason").select_option("NodeTooSmall")
        await expect(page.locator("#groups")).to_contain_text("huge")
        await expect(page.locator("#groups")).not_to_contain_text("batch")


async def test_the_queue_is_in_the_scheduler_s_order(chromium: Browser) -> None:
    async with showing(chromium, busy) as show:
        rows = show.page.locator("#view-table tbody tr")
        await expect(rows.nth(0)).to_contain_text("team/urgent")
        await expect(rows.nth(1)).to_contain_text("team/batch-2")
        await expect(rows.nth(2)).to_contain_text("team/batch-1")


@pytest.mark.parametrize(
    ("view", "words"),
    [
        pytest.param("gangs", ["team/big", "0 of 2"], id="gangs"),
        pytest.param("quotas", ["team/gpus", "of 8 GPUs"], id="quotas"),
        pytest.param("preemptions", ["team/urgent", "lonely", "team/stay leave"], id="preemptions"),
        pytest.param("drains", ["lonely", "1, 1 ending", "team/stay", "stuck"], id="drains"),
    ],
)
async def test_views_are_permalinks(chromium: Browser, view: str, words: list[str]) -> None:
    async with showing(chromium, busy, link=f"#view={view}") as show:
        for word in words:
            await expect(show.page.locator("#view-table")).to_contain_text(word)
        await show.page.locator("#tab-queue").click()
        await expect(show.page.locator("#view-table")).to_contain_text("team/huge")
        await show.page.locator(f"#tab-{view}").click()
        await expect(show.page).to_have_url(re.compile(f"view={view}"))


@pytest.mark.parametrize(
    ("link", "title", "words"),
    [
        pytest.param("#claim=team/big", "Claim team/big", "kubectl", id="claim"),
        pytest.param("#pool=h100", "Pool h100", "ullage plan scale", id="pool"),
        pytest.param("#gang=team/big", "Gang team/big", "team/big-0", id="gang"),
        pytest.param("#quota=team/gpus", "Quota team/gpus", "held", id="quota"),
        pytest.param("#claim=team/none", "Claim team/none", "there is no claim team/none", id="none"),
    ],
)
async def test_claims_pools_gangs_and_quotas_are_permalinks(
    chromium: Browser, link: str, title: str, words: str
) -> None:
    # The browser itself complains of a 404 in its console.
    async with showing(chromium, busy, link="") as show:
        if words.startswith("there is no"):
            answer = await show.page.request.get(f"{show.page.url}api/answer/claim/team/none")
            assert (answer.status, words) == (404, (await answer.text()).strip())
            return
        await show.page.goto(f"{show.page.url}{link}")
        await show.page.reload()
        await expect(show.page.locator("#details h2")).to_have_text(title)
        await expect(show.page.locator("#details")).to_contain_text(words)
        await show.page.keyboard.press("Escape")
        assert "#" not in show.page.url


async def test_a_node_says_what_it_takes_and_why_it_stays(chromium: Browser) -> None:
    async with showing(chromium, busy, link="#node=h100-1") as show:
        details = show.page.locator("#details")
        await details.get_by_role("button", name="why does it stay").click()
        await expect(details).to_contain_text("removal: it ")
        await expect(details).to_contain_text("kubectl describe node h100-1")
        await details.get_by_role("button", name="Ask again").click()
        await expect(details).to_contain_text("removal: it ")


async def test_a_pool_s_name_opens_it(chromium: Browser) -> None:
    async with showing(chromium, busy) as show:
        await show.page.get_by_role("button", name="spot", exact=True).click()
        await expect(show.page.locator("#details h2")).to_have_text("Pool spot")
        await expect(show.page).to_have_url(re.compile("#pool=spot"))


async def test_nodes_are_sorted_by_idleness(chromium: Browser) -> None:
    async with showing(chromium, busy, link="#sort=idleness") as show:
        # h100-0 has 4 GPUs free, h100-1 fewer; all since the same time, some minutes ago by the world's own books.
        await expect(label(show.page, "h100-0")).to_have_count(1)
        for row in show.view.model._idle._since.values():
            for gpu in row:
                row[gpu] -= 7200
        for number in (0, 1, 2):
            show.world.put_node(show.world.nodes[f"h100-{number}"])
        show.world.pod("more", gpus=3, node="h100-0", ids=(4, 5, 6))
        show.world.pod("less", gpus=1, node="h100-2", ids=(7,))
        show.world.pod("few", gpus=1, node="h100-1", ids=(3,))
        names = show.page.locator('.pool[data-pool="h100"] [data-node]')
        await expect(names.nth(0)).to_have_attribute("data-node", "h100-2")
        await expect(names.nth(2)).to_have_attribute("data-node", "h100-0")


@pytest.mark.parametrize(
    ("colour", "words"), [("workload", "Deployment/chat"), ("namespace", "team"), ("idleness", "idle under 5 min")]
)
async def test_colours_are_explained(chromium: Browser, colour: str, words: str) -> None:
    async with showing(chromium, busy, link=f"#colour={colour}") as show:
        await expect(show.page.locator("#hue-legend")).to_contain_text(words)
        await show.page.locator("#map-colour").select_option("state")
        await expect(show.page.locator("#hue-legend")).to_be_hidden()


async def test_a_node_pool_open_to_rivals_is_a_banner(chromium: Browser) -> None:
    async with showing(chromium, busy) as show:
        await expect(show.page.locator("#banners")).to_contain_text(re.compile("HandoverUnprotected.*gpu"))
