"""Trials and questions on a copy of the cluster: they take long, and nobody waits for them who did not ask."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from bench import dashboard
from tests.web.worlds import NOW, World
from ullage.clock import WallClock
from ullage.decide.explain.pod import explain_pod
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Owner, Pod
from ullage.observe.probes import ListenAddress
from ullage.web.live import LiveView, served
from ullage.web.serve.background import Background
from ullage.web.view import cluster_copy
from ullage.web.view.cluster_copy import ClusterCopy
from ullage.web.view.model import MOST_NODES_A_PATCH, DashboardModel
from ullage.web.view.patch import PageSection
from ullage.web.view.rows import PageInfo, WaitingGroupRow


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Trials and explanations do not end before it is opened."""
    opened, real = threading.Event(), explain_pod

    def slow(*arguments: object, **more: object) -> object:
        assert opened.wait(30)
        return real(*arguments, **more)  # type: ignore[arg-type]

    for module in ("cluster_copy", "explanation"):
        monkeypatch.setattr(f"ullage.web.view.{module}.explain_pod", slow)
    yield opened
    opened.set()


@pytest.fixture
async def crowded() -> AsyncIterator[tuple[LiveView, World, str]]:
    """A full node and a workload that waits, served."""
    view = LiveView(WallClock(), title="test")
    world = World(view.observe, view.clock.now())
    world.node("n")
    world.pod("busy", gpus=8, node="n", ids=tuple(range(8)))
    world.pod("wl-5d4f8-bcdfg", gpus=8, owner=Owner(kind="ReplicaSet", name="wl-5d4f8", uid="u"))
    view.all_observed()
    async with served(view, ListenAddress("127.0.0.1", 0)) as url:
        yield view, world, url


def actions(view: LiveView) -> list[str]:
    rows = view.model._groups.table.rows.values()
    return [row.action for row in rows if isinstance(row, WaitingGroupRow)]


async def until(holds: object) -> None:
    async with asyncio.timeout(30):
        while not holds():  # type: ignore[operator]  # noqa: ASYNC110 - another thread makes it true
            await asyncio.sleep(0.02)


async def test_the_page_goes_on_while_an_action_is_tried(
    gate: threading.Event, crowded: tuple[LiveView, World, str]
) -> None:
    view, world, url = crowded
    await until(lambda: view.model._groups._under_way)
    world.node("another", gpus=0)
    async with aiohttp.ClientSession() as session:

        async def shown() -> bool:
            async with session.get(f"{url}api/snapshot") as answer:
                return "another" in (await answer.json())["nodes"]

        async with asyncio.timeout(30):
            while not await shown():  # noqa: ASYNC110 - another thread makes it true
                await asyncio.sleep(0.05)
        asking = asyncio.ensure_future(session.get(f"{url}api/explain/team/wl-5d4f8-bcdfg"))
        await asyncio.sleep(0.1)
        assert await shown()
        assert not asking.done()
        assert actions(view) == [""]
        gate.set()
        await until(lambda: all(actions(view)))
        assert (await (await asking).json())["verdict"] == "Unschedulable"


async def test_an_answer_that_comes_late_is_told_to_nobody_who_has_left(
    gate: threading.Event, crowded: tuple[LiveView, World, str]
) -> None:
    view, world, _ = crowded
    await until(lambda: view.model._groups._under_way)
    world.remove_pod("wl-5d4f8-bcdfg")
    await until(lambda: not actions(view))
    gate.set()
    await until(lambda: not view.model._groups._under_way)
    assert actions(view) == []


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pods whose trial failed."""
    found: list[str] = []

    def broken(self: ClusterCopy, pod: Pod) -> cluster_copy.Suggestion:  # noqa: ARG001 - the signature of the real one
        found.append(pod.key.name)
        raise ZeroDivisionError

    monkeypatch.setattr(ClusterCopy, "suggestion", broken)
    return found


async def test_after_a_trial_that_fails_others_are_tried(
    failures: list[str], crowded: tuple[LiveView, World, str]
) -> None:
    view, world, _ = crowded
    await until(lambda: failures and not view.model._groups._under_way)
    world.pod("other", gpus=4)
    await until(lambda: "other" in failures)


def test_work_that_is_cancelled_before_its_turn_does_not_run() -> None:
    background, first, ran = Background(), threading.Event(), list[str]()
    under_way = background.submit(lambda: first.wait(30))
    second = background.submit(lambda: ran.append("second"))
    assert second.cancel()
    third = background.submit(lambda: ran.append("third"))
    first.set()
    third.result(30)
    assert under_way.result(30)
    assert ran == ["third"]


def test_a_copy_stays_as_it_was() -> None:
    model = DashboardModel()
    world = World(model.observe)
    world.node("n")
    pod = world.pod("waits", gpus=8)
    copy = model.copy(now=NOW)
    world.pod("other", gpus=8, node="n", ids=tuple(range(8)))
    assert copy.suggestion(pod) == ("", ()), "it fits: there is nothing to do"
    assert "other" not in {key.name for key in copy.snapshot.pods}
    assert ObjectKey("team", "other") in model.snapshot.pods


def test_nodes_that_come_all_at_once_are_shown_in_turns_and_only_then_the_cluster_is_called_read() -> None:
    model = DashboardModel()
    world = World(model.observe)
    many = 2 * MOST_NODES_A_PATCH + 1
    for number in range(many):
        world.node(f"n{number}", gpus=0)
    told: list[tuple[int, bool, bool]] = []
    for step in range(4):
        patch = model.patch(PageInfo(synced=True), now=NOW + step)
        about = patch.sections.get(PageSection.ABOUT, {})
        synced = next((bool(getattr(row, "synced", False)) for row in about.values()), False)
        told.append((len(patch.sections.get(PageSection.NODES, {})), synced, model.behind))
    assert told == [
        (MOST_NODES_A_PATCH, False, True),
        (MOST_NODES_A_PATCH, False, True),
        (1, True, False),
        (0, False, False),
    ]


@pytest.mark.full
def test_bounds_hold_with_5_000_nodes_and_1_000_waiting_pods() -> None:
    figures = dashboard.run(1.0)
    assert {figure.name: figure.ours for figure in figures if not figure.holds} == {}
