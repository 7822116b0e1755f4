"""`ullage top`: its screen, row by row; and live on a terminal, beside a simulated cluster that changes."""

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import structs

from tests.cli.demo_terminal import on_terminal
from tests.sim.http.cluster import in_a_thread
from ullage.cli.top import MOST_PENDING, TopScreen
from ullage.kube.auth.connect import connect
from ullage.kube.client.resources import NODES, PODS
from ullage.sim.http import ServeOptions
from ullage.testing.builders import a_node, a_pod
from ullage.web.view.patch import PageSection
from ullage.web.view.rows import NodeRow, PageInfo, PendingRow, PoolRow, Totals

NOW = 1000.0


def screen(**sections: Mapping[str, object]) -> TopScreen:
    found = TopScreen()
    found.take({PageSection(name): dict(rows) for name, rows in sections.items()})
    return found


def test_fleet_gpus_and_waste() -> None:
    gpus = Totals(nodes=3, gpus=24, allocated=16.5, idle=6.5, broken=1)
    totals = structs.replace(gpus, pending=2, pending_gpus=9, price=1234.5, waste=310)
    shown = screen(totals={"now": totals}, about={"now": PageInfo(currency="€", synced=True)})
    assert shown.synced
    assert shown.lines(NOW)[:3] == [
        "nodes 3   GPUs 24   given out 16.5 (69 %)   idle 6.5   broken 1",
        "waiting 2 pods for 9 GPUs",
        "price €1,234.50 per hour, of it idle €310.00",
    ]


def test_pools_with_why_they_buy_nothing() -> None:
    row = PoolRow(name="h100", current=2, target=3, coming=1, utilization=80, blocked="NoCapacity", why="6 pods wait")
    lines = screen(pools={"h100": row}).lines(NOW)
    assert lines[2].split() == ["POOL", "NODES", "TARGET", "COMING", "USED", "BLOCKED", "LAST", "DECISION"]
    assert lines[3].split() == ["h100", "2", "3", "1", "80", "%", "NoCapacity", "6", "pods", "wait"]


def test_the_queue_in_its_order() -> None:
    """The highest priority first, then the oldest; what does not fit on the screen is counted."""
    rows = {
        f"ns/p{number}": PendingRow(pod=f"ns/p{number}", asks="1 x H100", since=NOW - number, reason="TooFewGpus")
        for number in range(MOST_PENDING + 2)
    }
    rows["ns/first"] = PendingRow(pod="ns/first", asks="8 x H100", since=NOW - 1, priority=10, message="no room")
    lines = [line for line in screen(pending=rows).lines(NOW) if line.startswith(("ns/", "and "))]
    assert lines[0].split() == ["ns/first", "8", "x", "H100", "1s", "-", "no", "room"]
    assert lines[1].split() == ["ns/p13", "1", "x", "H100", "13s", "TooFewGpus", "-"]
    assert lines[-1] == "and 3 more"


def test_nodes_that_go() -> None:
    rows = {
        "a": NodeRow(name="a", pods=3, draining_since=NOW - 300),
        "b": NodeRow(name="b", deletion_time=NOW + 42),
        "c": NodeRow(name="c"),
    }
    lines = screen(nodes=rows).lines(NOW)
    assert [line.split() for line in lines[-2:]] == [
        ["a", "drains", "5m", "3", "pods"],
        ["b", "tainted", "in", "42s", "0", "pods"],
    ]


def test_what_is_gone_is_shown_no_more_and_trouble_is() -> None:
    shown = screen(pending={"ns/p": PendingRow(pod="ns/p", asks="1", since=NOW)})
    shown.take({PageSection.PENDING: {"ns/p": None}, PageSection.ABOUT: {"now": PageInfo(trouble="the watch is cut")}})
    assert "nobody waits" in shown.lines(NOW)
    assert shown.lines(NOW)[-1] == "not up to date: the watch is cut"


async def _create(kubeconfig: Path, *nodes: str, pods: tuple[str, ...] = ()) -> None:
    api = connect(kubeconfig)
    try:
        for name in nodes:
            await api.create(NODES, a_node(name, gpus=8))
        for name in pods:
            await api.create(PODS, a_pod(name, gpus=16), "default")
    finally:
        await api.close()


@pytest.mark.story
def test_it_is_live_on_a_terminal_until_ctrl_c(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    with in_a_thread(ServeOptions(kubeconfig=config)):
        asyncio.run(_create(config, "gpu-1"))
        with on_terminal(tmp_path, "top", "--every", "0.2", "--kubeconfig", str(config)) as terminal:
            terminal.wait_for(r"nodes 1   GPUs 8   given out 0")
            asyncio.run(_create(config, "gpu-2", pods=("large",)))
            terminal.wait_for(r"nodes 2   GPUs 16")
            terminal.wait_for(r"default/large")
            terminal.press("\x03")
            assert terminal.ended() == 0
            assert b"\x1b[?1049l" in terminal.seen, "the screen that was there before is back"


@pytest.mark.story
def test_a_terminal_that_ends_ends_it(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    with in_a_thread(ServeOptions(kubeconfig=config)):
        asyncio.run(_create(config, "gpu-1"))
        with on_terminal(tmp_path, "top", "--kubeconfig", str(config)) as terminal:
            terminal.wait_for(r"GPUs 8")
            assert terminal.ended_by(signal.SIGTERM) == 0
