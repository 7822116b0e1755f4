"""The picture as a whole: only what changed is told, and all that is told adds up to what is there."""

import random
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tests.web.worlds import NOW, World
from ullage.model.claim import DeviceRequest, TopologyMode
from ullage.model.fact_event import FactEvent, ObjectKey
from ullage.model.provisioner import BackOff, CloudFailure
from ullage.model.units import Instant
from ullage.web.view.explanation import explained
from ullage.web.view.model import DashboardModel
from ullage.web.view.patch import ONLY, PageSection, PatchSum, ViewPatch
from ullage.web.view.rows import PageInfo, PendingRow, PoolRow, Totals


class Scene:
    def __init__(self) -> None:
        self.picture = DashboardModel()
        self.world = World(self.picture.observe)
        self.mirror = PatchSum()

    def patch(self, after: float = 0.0) -> ViewPatch:
        patch = self.picture.patch(PageInfo(), now=NOW + after)
        self.mirror.apply(patch)
        return patch

    def settle(self) -> None:
        """Until every pod that waits has been asked about."""
        for _ in range(50):
            self.patch()

    def pending(self, name: str) -> PendingRow:
        row = self.mirror.snapshot().sections[PageSection.PENDING][f"team/{name}"]
        assert isinstance(row, PendingRow)
        return row

    def totals(self) -> Totals:
        row = self.mirror.snapshot().sections[PageSection.TOTALS][ONLY]
        assert isinstance(row, Totals)
        return row


def test_a_change_touches_its_node_alone() -> None:
    scene = Scene()
    for number in range(20):
        scene.world.node(f"n{number}")
    scene.patch()
    scene.world.pod("a", gpus=1, node="n7", ids=(0,))
    assert list(scene.patch().sections[PageSection.NODES]) == ["n7"]


def test_a_report_that_says_nothing_new_is_not_told() -> None:
    scene = Scene()
    scene.world.node("n")
    scene.patch()
    scene.world.report(replace(scene.world.inventories["n"], reported_at=NOW + 30))
    assert PageSection.NODES not in scene.patch(30).sections


def test_a_node_that_falls_silent_is_told_without_a_word_from_it() -> None:
    scene = Scene()
    scene.world.node("n")
    scene.world.node("m")
    scene.patch()
    scene.world.report(replace(scene.world.inventories["m"], reported_at=NOW + 80))
    assert list(scene.patch(100).sections[PageSection.NODES]) == ["n"]


def test_a_node_that_is_gone_is_taken_away() -> None:
    scene = Scene()
    scene.world.node("n")
    scene.patch()
    scene.world.remove_node("n")
    assert scene.patch().sections[PageSection.NODES] == {"n": None}


def test_the_sum_of_all_patches_is_what_a_newcomer_sees() -> None:
    """Whatever happens in whatever order, telling it piece by piece comes to the same as telling it at once."""
    for seed in range(8):
        rng = random.Random(seed)
        scene = Scene()
        whole = DashboardModel()
        world = World(_both(scene.picture, whole))
        _live(world, rng, scene)
        scene.settle()
        fresh = PatchSum()
        for _ in range(50):
            fresh.apply(whole.patch(PageInfo(), now=NOW))
        for section in (PageSection.NODES, PageSection.PENDING, PageSection.POOLS, PageSection.DECISIONS):
            assert scene.mirror.snapshot().sections.get(section, {}) == fresh.snapshot().sections.get(section, {})


def _both(one: DashboardModel, other: DashboardModel) -> Callable[[FactEvent[Any]], None]:
    def observe(event: FactEvent[Any]) -> None:
        one.observe(event)
        other.observe(event)

    return observe


def _live(world: World, rng: random.Random, scene: Scene) -> None:
    """Nodes and pods come, go, break and are tainted."""
    world.pool("h100")
    for step in range(120):
        nodes = sorted(world.nodes)
        match rng.randrange(6):
            case 0:
                world.node(f"n{step}", pool=rng.choice(("", "h100")))
            case 1 if nodes:
                free = tuple(sorted(rng.sample(range(8), 2)))
                world.pod(f"p{step}", gpus=2, node=rng.choice(nodes), ids=free)
            case 2 if world.pods:
                world.remove_pod(rng.choice(sorted(world.pods)).name)
            case 3 if nodes and rng.random() < 0.3:
                world.remove_node(rng.choice(nodes))
            case 4 if nodes:
                world.break_gpu(rng.choice(nodes), rng.randrange(8))
            case _:
                world.pod(f"w{step}", gpus=rng.choice((1, 4, 9)))
        if rng.random() < 0.3:
            scene.patch()


def test_pods_that_wait_have_the_reasons_of_the_scheduler() -> None:
    scene = Scene()
    scene.world.node("n", gpus=8, islands=2)
    scene.world.pod("busy", gpus=4, node="n", ids=(0, 1, 4, 5))
    scene.world.pod("small", gpus=2)
    scene.world.pod("large", gpus=6)
    scene.world.pod("huge", gpus=16)
    scene.world.pod("gated", gpus=1, gated=True)
    scene.world.pod("lost", claim="nowhere")
    scene.world.claim("island", DeviceRequest(count=4, topology=TopologyMode.REQUIRED))
    scene.world.pod("wired", claim="island")
    scene.settle()
    reasons = {name: scene.pending(name).reason for name in ("small", "large", "huge", "gated", "lost", "wired")}
    assert reasons == {
        "small": "Fits",
        "large": "TooFewGpus",
        "huge": "NodeTooSmall",
        "gated": "SchedulingGated",
        "lost": "ClaimMissing",
        "wired": "NoIslandLargeEnough",
    }


def test_members_of_a_gang_wait_for_the_same_reason() -> None:
    scene = Scene()
    scene.world.node("n")
    scene.world.claim("half", DeviceRequest(count=8), gang="llm", gang_min_member=2)
    for number in range(2):
        scene.world.pod(f"llm-{number}", claim_template="half")
    scene.settle()
    rows = [scene.pending(f"llm-{number}") for number in range(2)]
    assert [row.gang for row in rows] == ["llm", "llm"]
    assert rows[0].message == rows[1].message
    assert rows[0].message.count(". gang team/llm: ") == 1


def test_a_reason_changes_when_room_is_made() -> None:
    scene = Scene()
    scene.world.node("n")
    scene.world.pod("busy", gpus=8, node="n", ids=tuple(range(8)))
    scene.world.pod("next", gpus=1)
    scene.settle()
    assert scene.pending("next").reason == "TooFewGpus"
    scene.world.remove_pod("busy")
    scene.settle()
    assert scene.pending("next").reason == "Fits"


def test_who_got_a_node_no_longer_waits() -> None:
    scene = Scene()
    scene.world.node("n")
    scene.world.pod("a", gpus=1)
    scene.settle()
    scene.world.bind("a", "n", (3,))
    patch = scene.patch()
    assert patch.sections[PageSection.PENDING] == {"team/a": None}
    assert scene.totals().pending == 0


def test_a_pool_says_what_it_has_wants_awaits_and_why_it_may_not_buy() -> None:
    scene = Scene()
    blocked = BackOff(failure=CloudFailure.CAPACITY, failures=1, until=Instant(NOW + 120), message="none left")
    scene.world.pool("h100", current=2, target=4, coming=1, back_off=blocked)
    row = scene.patch().sections[PageSection.POOLS]["h100"]
    assert isinstance(row, PoolRow)
    assert (row.current, row.target, row.coming, row.price) == (2, 4, 1, 98.32)
    assert (row.blocked, row.blocked_until) == ("NoCapacity: none left", NOW + 120)
    assert row.why == "8 GPUs are waited for"


def test_the_price_of_idle_gpus_is_their_part_of_their_node() -> None:
    scene = Scene()
    scene.world.pool("h100", price=80.0)
    scene.world.node("n", pool="h100")
    scene.world.node("unpriced")
    scene.world.pod("a", gpus=6, node="n", ids=tuple(range(6)))
    scene.world.break_gpu("n", 7)
    scene.patch()
    totals = scene.totals()
    assert (totals.gpus, totals.allocated, totals.idle, totals.broken) == (16, 6, 9, 1)
    assert (totals.price, totals.waste, totals.unpriced) == (80.0, 20.0, 1)


def test_a_price_that_changes_counts_from_then_on() -> None:
    scene = Scene()
    scene.world.pool("h100", price=80.0)
    scene.world.node("n", pool="h100")
    scene.patch()
    scene.world.pool("h100", price=40.0)
    scene.patch(3600)
    assert (scene.totals().wasted, scene.totals().waste) == (80.0, 40.0)


def test_a_pod_is_explained_as_the_command_does() -> None:
    scene = Scene()
    scene.world.pool("h100", current=2, target=2, coming=0)
    scene.world.node("a", pool="h100")
    scene.world.node("b", pool="h100")
    scene.world.pod("busy", gpus=8, node="a", ids=tuple(range(8)))
    scene.world.pod("half", gpus=4, node="b", ids=(0, 1, 2, 3))
    scene.world.pod("next", gpus=8)
    said = explained(scene.picture.copy(now=NOW), ObjectKey("team", "next"))
    assert said is not None
    assert said.verdict == "Unschedulable"
    assert {(group.reason, group.nodes) for group in said.groups} == {
        ("InsufficientResources", ("a",)),
        ("InsufficientResources", ("b",)),
    }
    assert any("NodeProvisioner h100" in step for step in said.helps)


def test_explaining_leaves_the_picture_as_it_was() -> None:
    scene = Scene()
    scene.world.node("a")
    scene.world.pod("next", gpus=8)
    scene.settle()
    explained(scene.picture.copy(now=NOW), ObjectKey("team", "next"))
    assert set(scene.patch().sections) <= {PageSection.TOTALS, PageSection.SERIES}


def test_a_pod_that_is_not_there_is_not_explained() -> None:
    assert explained(DashboardModel().copy(now=NOW), ObjectKey("team", "nobody")) is None
