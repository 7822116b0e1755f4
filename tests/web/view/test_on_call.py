"""Views for on-call and answers of the page, as rows, without a browser."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.web.worlds import NOW, World
from ullage.model.claim import DeviceRequest
from ullage.model.draining import DRAINING_TAINT
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.pod import Owner
from ullage.model.quota import Quota, QuotaLimits
from ullage.web.view import answers
from ullage.web.view.answers import answered
from ullage.web.view.banners import STUCK_SECONDS
from ullage.web.view.model import DashboardModel
from ullage.web.view.on_call import NAMED, OnCallViews
from ullage.web.view.patch import PageSection, PatchSum
from ullage.web.view.pending import MOST_SHOWN
from ullage.web.view.rows import DrainRow, GangRow, LimitBar, PageInfo, PreemptionRow, QuotaRow


class Scene:
    """A model, the world it hears of, and the rows it has sent."""

    def __init__(self) -> None:
        self.model = DashboardModel()
        self.world = World(self.model.observe)
        self._sent = PatchSum()

    def rows(self, section: PageSection, after: float = 0.0) -> list[Any]:
        """Rows of a section, after some patches, in the order of the view."""
        for step in range(3):
            self._sent.apply(self.model.patch(PageInfo(), now=NOW + after + 2 * step))
        return list(self._sent.snapshot().sections.get(section, {}).values())

    def quota(self, name: str, namespace: str, **limits: Any) -> None:
        key = ObjectKey(namespace, name)
        self.model.observe(Added(key, Quota(key=key, uid=f"uid-{name}", generation=1, limits=QuotaLimits(**limits))))

    def gang(self, name: str, members: int, needs: int, **asks: Any) -> None:
        for number in range(members):
            ask = DeviceRequest(**({"count": 8} | asks))
            self.world.claim(f"{name}-{number}", ask, gang=name, gang_min_member=needs)
            self.world.pod(f"{name}-{number}", claim=f"{name}-{number}")


def test_quotas_that_pods_wait_for_come_first() -> None:
    scene = Scene()
    scene.world.node("n")
    scene.world.pod("held", gpus=2, node="n", ids=(0, 1))
    scene.quota("idle", "calm", gpus=8)
    scene.quota("full", "team", gpus=2, by_model=(("H100", 4),))
    scene.world.pod("waits", gpus=1)
    first, second = scene.rows(PageSection.QUOTAS)
    assert first == QuotaRow(
        quota="team/full",
        namespace="team",
        limits=(LimitBar(what="GPUs", used=2, most=2), LimitBar(what="H100", used=2, most=4)),
        waiting=1,
    )
    assert (second.quota, second.waiting) == ("calm/idle", 0)


def test_gangs_that_wait_come_first_and_say_why() -> None:
    scene = Scene()
    scene.world.node("n")
    scene.gang("small", 1, 1, count=4)
    scene.gang("stuck", 3, 3)
    found = {row.gang: row for row in scene.rows(PageSection.GANGS)}
    stuck = found["team/stuck"]
    assert isinstance(stuck, GangRow)
    assert (stuck.needs, stuck.members, stuck.bound, stuck.waiting) == (3, 3, 0, 3)
    assert stuck.reason
    assert stuck.message
    assert stuck.first == "team/stuck-0"
    scene.world.bind("small-0", "n", (0, 1, 2, 3))
    rows = scene.rows(PageSection.GANGS, after=10)
    assert [(row.gang, row.bound, row.nodes) for row in rows if row.gang == "team/small"] == [("team/small", 1, 1)]


def test_room_that_is_being_made_counts_from_its_first_sight() -> None:
    scene = Scene()
    scene.world.node("n")
    for gpu in range(NAMED + 2):
        scene.world.pod(f"victim-{gpu}", node="n", deleting=True)
    scene.world.pod("wants", gpus=8, nominated="n", priority=10)
    (row,) = scene.rows(PageSection.PREEMPTIONS)
    assert isinstance(row, PreemptionRow)
    assert (row.pod, row.node, row.priority, row.since) == ("team/wants", "n", 10, NOW)
    assert (len(row.leaving), row.more) == (NAMED, 2)
    (later,) = scene.rows(PageSection.PREEMPTIONS, after=60)
    assert later.since == NOW
    scene.world.bind("wants", "n", tuple(range(8)))
    assert scene.rows(PageSection.PREEMPTIONS, after=120) == []


@pytest.mark.parametrize(("age", "stuck"), [(60.0, False), (STUCK_SECONDS + 60, True)], ids=["begun", "stuck"])
def test_a_drain_lists_who_is_left(age: float, stuck: bool) -> None:
    scene = Scene()
    scene.world.node("n")
    scene.world.pod("stays", gpus=1, node="n", ids=(0,))
    scene.world.pod("goes", gpus=1, node="n", ids=(1,), deleting=True)
    scene.world.taint("n", DRAINING_TAINT, NOW - age)
    scene.world.node("other")
    (row,) = scene.rows(PageSection.DRAINS)
    assert row == DrainRow(
        node="n", since=NOW - age, left=2, pods=("team/goes", "team/stays"), leaving=1, stuck=stuck, pool=""
    )


def test_workloads_behind_all_pods_that_are_shown_have_a_reason_too() -> None:
    scene = Scene()
    scene.world.node("n")
    scene.world.pod("busy", gpus=8, node="n", ids=tuple(range(8)))
    for number in range(MOST_SHOWN):
        scene.world.pod(f"first-{number}", gpus=8, created=NOW - 100)
    for workload in ("second", "third"):
        owner = Owner(kind="Job", name=workload, uid=workload)
        for number in range(5):
            scene.world.pod(f"{workload}-{number}", gpus=16, owner=owner)
    for step in range(15):
        groups = {row.workload: row for row in scene.rows(PageSection.GROUPS, after=6 * step)}
    assert {name: (row.count, row.reason) for name, row in groups.items() if row.count == 5} == {
        "Job/second": (5, "NodeTooSmall"),
        "Job/third": (5, "NodeTooSmall"),
    }
    assert groups["Job/third"].action


def test_views_look_at_most_once_a_second() -> None:
    scene = Scene()
    scene.world.node("n")
    views = OnCallViews(scene.model.assigner, scene.model._waiting)
    views.renew([], now=NOW)
    scene.quota("full", "team", gpus=2)
    views.renew([], now=NOW + 0.5)
    assert not views.quotas.rows
    views.renew([], now=NOW + 1.5)
    assert list(views.quotas.rows) == ["team/full"]


def answer(scene: Scene, kind: str, key: ObjectKey) -> dict[str, Any] | None:
    said = answered(scene.model.copy(now=NOW), kind, key)
    return None if said is None else msgspec.json.decode(said)


def crowded() -> Scene:
    scene = Scene()
    scene.world.pool("h100", current=1, target=1, coming=0)
    scene.world.node("n", pool="h100")
    scene.world.pod("busy", gpus=8, node="n", ids=tuple(range(8)))
    scene.world.claim("c", DeviceRequest(count=4))
    scene.world.pod("waits", claim="c")
    scene.gang("g", 2, 2)
    scene.quota("full", "team", gpus=8)
    return scene


@pytest.mark.parametrize(
    ("kind", "key", "about", "verdict"),
    [
        pytest.param("claim", ObjectKey("team", "c"), "gpuclaim/team/c", "TooFewGpus", id="claim"),
        pytest.param("gang", ObjectKey("team", "g"), "gang/team/g", "TooFewGpus", id="gang"),
        pytest.param("quota", ObjectKey("team", "full"), "gpuquota/team/full", "HasRoom", id="quota"),
        pytest.param("pool", ObjectKey("", "h100"), "nodeprovisioner/h100", "NoAction", id="pool"),
        pytest.param("node", ObjectKey("", "n"), "node/n", "InsufficientResources", id="node"),
    ],
)
def test_a_click_gets_what_explain_says(kind: str, key: ObjectKey, about: str, verdict: str) -> None:
    said = answer(crowded(), kind, key)
    assert said is not None
    assert (said["about"], said["verdict"]) == (about, verdict)
    assert said["message"]
    assert said["commands"]


def test_a_pool_that_is_paused_says_how_it_goes_on() -> None:
    scene = crowded()
    scene.world.pool("h100", current=1, target=1, coming=0, thresholds={"paused": True})
    said = answer(scene, "pool", ObjectKey("", "h100"))
    assert said is not None
    assert said["verdict"] == "Paused"
    assert said["helps"], "what was tried"
    assert said["commands"][0] == 'kubectl patch nodeprovisioner h100 --type merge -p \'{"spec":{"paused":false}}\''


@pytest.mark.parametrize("kind", answers.ANSWERED)
def test_what_is_not_there_gets_no_answer(kind: str) -> None:
    assert answer(crowded(), kind, ObjectKey("" if kind in answers.CLUSTER_WIDE else "team", "nothing")) is None


def test_a_pool_is_not_planned_for_a_page_while_thousands_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_PLANNED", 1)
    said = answer(crowded(), "node", ObjectKey("", "n"))
    assert said is not None
    assert (said["verdict"], said["commands"]) == ("NotPlanned", ["ullage explain node/n"])
    said = answer(crowded(), "pool", ObjectKey("", "h100"))
    assert said is not None
    assert (said["verdict"], said["commands"]) == ("NotPlanned", ["ullage explain nodeprovisioner/h100"])
    assert "3 pods wait" in said["message"]


def test_a_copy_of_before_answers_as_of_before() -> None:
    scene = crowded()
    copy = scene.model.copy(now=NOW)
    scene.world.put_node(replace(scene.world.nodes["n"], unschedulable=True))
    assert answered(copy, "claim", ObjectKey("team", "c")) == answered(
        crowded().model.copy(now=NOW), "claim", ObjectKey("team", "c")
    )
