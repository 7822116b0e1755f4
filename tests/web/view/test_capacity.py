"""Smart pods and NodeClaims on the dashboard: states, times and what is expected, from facts to a browser."""

import asyncio
import random
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.async_api import Browser, expect

from tests.control.karpenter import stage as karpenter
from tests.web.pages import showing
from tests.web.worlds import NOW, World
from ullage.kube.client.rest import RestApi
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.karpenter import (
    NODE_POOL_LABEL,
    REQUEST_LABEL,
    NodeClaim,
    NodePool,
    ObservedCondition,
    OriginalRequest,
    SmartPod,
    Tristate,
    WaitingPod,
)
from ullage.model.units import Instant
from ullage.sim.apiserver import InMemoryTransport
from ullage.web.live import LiveView, follow_cluster
from ullage.web.view.capacity import MOST_READY
from ullage.web.view.model import DashboardModel
from ullage.web.view.patch import PageSection, PatchSum
from ullage.web.view.rows import BannerRow, CapacityRow, PageInfo

SMART = ObjectKey("tensor-fusion-system", "smart-gpu-scheduler-h100-r1")


def node_claim(name: str, request: str, created: float, **steps: float) -> NodeClaim:
    """`steps`: seconds after its creation."""
    conditions = {
        step: ObservedCondition(Tristate.TRUE, "", "", Instant(created + after)) for step, after in steps.items()
    }
    labels = {REQUEST_LABEL: request, NODE_POOL_LABEL: "gpu-h100"}
    return NodeClaim(
        name=name, uid=name, created=Instant(created), deleting=False, labels=labels, node="", conditions=conditions
    )


def smart_pod(now: float, state: str = "Launched") -> SmartPod:
    original = OriginalRequest(
        id="r1", mapping="h100", pods=(WaitingPod(ObjectKey("team", "a"), "u"),), gpu_model="H100", gpu_count=1
    )
    return SmartPod(
        key=SMART,
        uid="s",
        created=Instant(now - 20),
        request="r1",
        original=original,
        state=state,
        state_since=Instant(now - 10),
    )


class Dashboard:
    def __init__(self) -> None:
        self.picture = DashboardModel()
        self.mirror = PatchSum()

    def put(self, fact: Any) -> None:
        key = fact.key if isinstance(fact, SmartPod) else ObjectKey("", fact.name)
        self.picture.observe(Added(key, fact))

    def rows(self, after: float = 0.0) -> dict[str, CapacityRow]:
        self.mirror.apply(self.picture.patch(PageInfo(), now=NOW + after))
        found = self.mirror.snapshot().sections.get(PageSection.CAPACITY, {})
        return {key: row for key, row in found.items() if isinstance(row, CapacityRow)}


def test_a_request_is_shown_with_its_claim_and_when_it_is_expected() -> None:
    dashboard = Dashboard()
    for number, took in enumerate((40.0, 50.0, 60.0)):
        dashboard.put(node_claim(f"old-{number}", f"q{number}", NOW - 1000, Launched=1, Ready=took))
    dashboard.put(node_claim("gpu-x", "r1", NOW - 15, Launched=1.0))
    dashboard.put(smart_pod(NOW))
    rows = dashboard.rows()
    row = rows["r1"]
    assert (row.state, row.status, row.since, row.pods) == ("Launched", "Pending", NOW - 10, ("team/a",))
    assert (row.node_claim, row.node_pool, row.claimed_at) == ("gpu-x", "gpu-h100", NOW - 15)
    assert [(one.name, one.after) for one in row.steps] == [("Launched", 1.0)]
    assert (row.expected, row.latest) == (NOW + 35, NOW + 45)
    assert [key for key in rows if key.startswith("nodeclaim/")] == [f"nodeclaim/old-{n}" for n in range(3)]
    assert dashboard.rows(after=50.0)["r1"].expected is None, "it is later than all"


def test_a_claim_whose_request_is_over_stays_until_it_goes() -> None:
    dashboard = Dashboard()
    claim, smart = node_claim("gpu-x", "r1", NOW - 15, Launched=1.0), smart_pod(NOW)
    dashboard.put(claim)
    dashboard.put(smart)
    assert set(dashboard.rows()) == {"r1"}
    dashboard.picture.observe(Deleted(SMART, smart))
    rows = dashboard.rows()
    assert set(rows) == {"nodeclaim/gpu-x"}
    assert rows["nodeclaim/gpu-x"].state == "Launched"
    going = replace(claim, deleting=True)
    dashboard.picture.observe(Updated(ObjectKey("", "gpu-x"), claim, going))
    assert dashboard.rows()["nodeclaim/gpu-x"].state == "Deleting"
    dashboard.picture.observe(Deleted(ObjectKey("", "gpu-x"), going))
    assert dashboard.rows() == {}


def test_a_thousand_nodes_in_use_do_not_fill_the_page() -> None:
    dashboard = Dashboard()
    for number in range(1000):
        dashboard.put(node_claim(f"n{number:04}", f"q{number}", NOW - 1000 + number, Ready=30.0))
    assert len(dashboard.rows()) == MOST_READY


@pytest.mark.story
def test_every_state_of_a_live_request_is_seen() -> None:
    async def story(stage: karpenter.Stage) -> None:
        view, mirror, seen = LiveView(stage.clock), PatchSum(), set[str]()
        api = RestApi(InMemoryTransport(stage.server, user="dashboard"), rng=random.Random(7))
        following = asyncio.ensure_future(follow_cluster(api, view, seed=7))
        await asyncio.sleep(1.0)
        await stage.claim_pod("a")

        async def looked() -> bool:
            mirror.apply(view.patch())
            rows = mirror.snapshot().sections.get(PageSection.CAPACITY, {}).values()
            seen.update(row.state for row in rows if isinstance(row, CapacityRow))
            told = mirror.snapshot().sections.get(PageSection.BANNERS, {}).values()
            seen.update(row.kind for row in told if isinstance(row, BannerRow))
            pending = mirror.snapshot().sections.get(PageSection.PENDING, {})
            assert not [key for key in pending if "smart-gpu-scheduler" in key], "no demand of its own"
            return "Ready" in seen

        await stage.until(looked, every=0.02)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert seen >= {"Pending", "Nominated", "Launched", "InventoryReady", "HandedOver", "Ready"}
        assert "HandoverUnprotected" in seen, "the controller's condition on the NodePool, as a banner"

    karpenter.play(story, pools=[karpenter.a_node_pool(protected=False)])


def _ordered(world: World, view: LiveView) -> None:
    def observe(event: FactEvent[Any]) -> None:
        view.observe(event)

    world.node("n1")
    world.pod("a", gpus=16)
    for number, took in enumerate((40.0, 50.0, 3000.0)):
        claim = node_claim(f"old-{number}", f"q{number}", world.now - 1000, Launched=1, Ready=took)
        observe(Added(ObjectKey("", claim.name), claim))
    observe(Added(ObjectKey("", "gpu-x"), node_claim("gpu-x", "r1", world.now - 60, Launched=1.0)))
    observe(Added(SMART, smart_pod(world.now)))
    told = ObservedCondition(Tristate.TRUE, "NoHandoverTaint", "nodes are open to other schedulers")
    pool = NodePool(name="gpu-h100", uid="u", generation=1, deleting=False, unprotected=told)
    observe(Added(ObjectKey("", pool.name), pool))


@pytest.mark.asyncio(loop_scope="module")
async def test_the_page_shows_it(chromium: Browser) -> None:
    async with showing(chromium, _ordered) as show:
        page = show.page
        row = page.locator('[data-request="r1"]')
        await expect(row).to_contain_text("Launched")
        await expect(row).to_contain_text("NodeClaim gpu-x")
        await expect(row).to_contain_text("expected in")
        await expect(row.locator(".tag.warn")).to_have_text("HandoverUnprotected")
        banner = page.locator(".banner", has_text="HandoverUnprotected")
        await expect(banner).to_contain_text("NodePool gpu-h100: nodes are open to other schedulers")
        await expect(row).to_contain_text("smart pod smart-gpu-scheduler-h100-r1")
        await expect(page.locator("#capacity-count")).to_have_text("1 request")
        await expect(page.locator('[data-request="nodeclaim/old-0"]')).to_contain_text("took 40 s")
        await row.get_by_role("button", name="team/a").click()
        await expect(page.locator("#details h2")).to_have_text("team/a")
