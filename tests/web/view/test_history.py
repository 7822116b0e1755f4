"""What the model gives to the history: samples, changes, idle times; with a clock that may go back."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.web.pages import decision
from tests.web.worlds import NOW as BEGINNING
from tests.web.worlds import World
from ullage.config.dashboard import DashboardSettings
from ullage.kube.client.resources import GPU_QUOTAS, NODE_PROVISIONERS
from ullage.model.fact_event import Added, Deleted, ObjectKey, Synced, Updated
from ullage.model.quota import Quota, QuotaLimits
from ullage.model.units import Instant, Steady
from ullage.observe.events import EventReason
from ullage.web.history.answers import what_changed
from ullage.web.history.log import HistoryLog
from ullage.web.history.opening import open_history
from ullage.web.history.records import Change, FleetSample
from ullage.web.history.writer import HistoryWriter
from ullage.web.live import LiveView
from ullage.web.view.decisions import read_decision
from ullage.web.view.history import MOST_OF_A_REASON, HistorySampler
from ullage.web.view.model import DashboardModel
from ullage.web.view.rows import NodeRow, PageInfo

SYNCED = PageInfo(synced=True)
NOW = float(BEGINNING)


class Watched:
    """A model with a history, and a world it hears of."""

    def __init__(self, interval: float = 30.0) -> None:
        self.sampler = HistorySampler(interval)
        self.model = DashboardModel(history=self.sampler)
        self.world = World(self.model.observe)
        self.now = NOW

    def pass_time(self, seconds: float = 1.0) -> list[Change | FleetSample]:
        self.now += seconds
        self.model.patch(SYNCED, now=self.now)
        return self.sampler.taken()

    def changes(self) -> list[tuple[str, str, str]]:
        return [(one.reason, one.about, one.note) for one in self.pass_time() if isinstance(one, Change)]


def test_a_sample_has_the_means_the_pools_and_the_queue() -> None:
    one = Watched()
    one.world.pool("h100", price=100.0)
    one.world.node("a", pool="h100")
    assert one.pass_time(0) == []
    one.pass_time(10)
    one.world.pod("p", gpus=8, node="a", ids=tuple(range(8)))
    one.world.pod("q", gpus=4)
    one.pass_time(5)  # what held until now counts: nothing was allocated
    found = one.pass_time(15)
    assert len(found) == 1
    sample = found[0]
    assert isinstance(sample, FleetSample)
    assert (sample.at, sample.width, sample.gpus, sample.allocated) == (NOW, 30.0, 8.0, 4.0)
    assert [(pool.name, pool.nodes, pool.gpus, pool.allocated) for pool in sample.pools] == [("h100", 1, 8, 8.0)]
    assert [(group.workload, group.count, group.gpus) for group in sample.queue] == [("Pod/q", 1, 4)]


def quota(most: int) -> Quota:
    return Quota(key=ObjectKey("team", "q"), uid="u", generation=1, limits=QuotaLimits(gpus=most))


def _come(one: Watched) -> None:
    one.world.node("b", created=Instant(one.now + 1))


def _go(one: Watched) -> None:
    one.world.remove_node("a")


def _not_ready(one: Watched) -> None:
    one.world.put_node(replace(one.world.nodes["a"], ready=False))


def _cordon(one: Watched) -> None:
    one.world.put_node(replace(one.world.nodes["a"], unschedulable=True))


def _break(one: Watched) -> None:
    one.world.break_gpu("a", 3)


def _widen(one: Watched) -> None:
    one.world.pool("h100", thresholds={"min_size": 3, "paused": True})


def _quota(one: Watched) -> None:
    one.model.observe(Updated(ObjectKey("team", "q"), quota(4), quota(8)))


def _no_quota(one: Watched) -> None:
    one.model.observe(Deleted(ObjectKey("team", "q"), quota(4)))


def _heartbeat(one: Watched) -> None:
    one.world.report(replace(one.world.inventories["a"], reported_at=Instant(one.now)))


def _decide(one: Watched) -> None:
    one.model.decisions.record(decision("to a", EventReason.SCHEDULED), at=one.now)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        pytest.param(_come, [("NodeAdded", "b", "came")], id="a-node-comes"),
        pytest.param(_go, [("NodeDeleted", "a", "is gone, of pool h100")], id="a-node-goes"),
        pytest.param(_not_ready, [("NodeNotReady", "a", "is not ready")], id="a-node-fails"),
        pytest.param(_cordon, [("NodeCordoned", "a", "was cordoned")], id="a-node-is-cordoned"),
        pytest.param(_break, [("GpuUnhealthy", "a", "GPU 3 unhealthy")], id="a-gpu-breaks"),
        pytest.param(_widen, [("PoolChanged", "h100", "minSize 0 → 3, paused false → true")], id="a-pool-is-changed"),
        pytest.param(_quota, [("QuotaChanged", "team/q", "gpus 4 → 8")], id="a-quota-is-changed"),
        pytest.param(_no_quota, [("QuotaDeleted", "team/q", "was deleted")], id="a-quota-is-deleted"),
        pytest.param(_heartbeat, [], id="a-heartbeat-is-no-change"),
        pytest.param(_decide, [("Scheduled", "team/train", "to a")], id="a-decision"),
    ],
)
def test_changes(act: Callable[[Watched], None], said: list[tuple[str, str, str]]) -> None:
    one = Watched()
    one.world.pool("h100")
    one.world.node("a", pool="h100")
    one.pass_time(0)
    assert one.changes() == []
    act(one)
    assert one.changes() == said
    assert one.changes() == []


def test_what_was_there_at_the_start_did_not_come() -> None:
    one = Watched()
    one.model.patch(PageInfo(), now=one.now)
    one.world.node("a")
    one.world.pool("h100")
    one.model.observe(Added(ObjectKey("team", "q"), quota(4)))
    assert one.changes() == []
    one.world.node("old")  # created an hour ago: the watch was late
    assert one.changes() == []
    one.model.observe(Synced(NODE_PROVISIONERS.id))
    one.model.observe(Synced(GPU_QUOTAS.id))
    one.world.pool("new")
    assert one.changes() == [("PoolCreated", "new", "was created")]


def test_a_storm_of_one_reason_is_counted_and_does_not_push_out_the_past() -> None:
    one = Watched(interval=10.0)
    one.pass_time(0)
    for number in range(500):
        one.model.decisions.record(decision(f"to n{number}", EventReason.SCHEDULED, f"p{number}"), at=one.now)
    found = one.pass_time(5)
    assert len(found) == MOST_OF_A_REASON
    sample = one.pass_time(5)[-1]
    assert isinstance(sample, FleetSample)
    assert sample.left_out == {"Scheduled": 500 - MOST_OF_A_REASON}


def test_one_decision_told_twice_in_the_process_is_counted() -> None:
    one = Watched()
    for _ in range(3):
        one.model.decisions.record(decision("to a", EventReason.SCHEDULED), at=one.now)
        one.now += 1
    row = next(iter(one.model.decisions.table.rows.values()))
    assert (row.count, row.first, row.at) == (3, NOW, NOW + 2)  # type: ignore[union-attr]


def test_gpus_are_idle_since_they_were_seen_to_be_free() -> None:
    one = Watched()
    one.world.node("a", gpus=4, islands=1)
    one.pass_time(0)

    def idle() -> tuple[int, ...]:
        one.pass_time(100)
        row = one.model._nodes.rows["a"]
        assert isinstance(row, NodeRow)
        return row.idle_since

    assert idle() == (NOW,), "all the same: one time is enough"
    one.world.pod("p", gpus=2, node="a", ids=(0, 1))
    assert idle() == (NOW,)
    one.world.remove_pod("p")
    assert idle() == (NOW + 300, NOW + 300, NOW, NOW)
    one.world.remove_node("a")
    one.pass_time()
    one.world.node("a", gpus=4, islands=1)
    assert idle() == (NOW + 401,), "a new node of the same name begins anew"


def test_a_clock_that_goes_back_stops_nothing() -> None:
    """Samples, banners and totals go on from the earlier time, and the jump is told."""
    one = Watched(interval=10.0)
    one.world.node("a")
    one.pass_time(0)
    assert one.pass_time(10)
    one.pass_time(-7200)
    found = [record for _ in range(3) for record in one.pass_time(5)]
    assert [record.at for record in found] == [NOW + 10 - 7200]
    one.world.break_gpu("a", 0)
    one.pass_time(2)
    assert one.model._banners.rows


class SetClock:
    """A clock that a test sets."""

    def __init__(self, now: float) -> None:
        self.time, self.passed = now, 0.0

    def now(self) -> Instant:
        return Instant(self.time)

    def steady(self) -> Steady:
        return Steady(self.passed)

    async def charge(self, cpu_seconds: float) -> None:
        self.passed += cpu_seconds


async def recorded(writer: HistoryWriter, question: Callable[[HistoryLog], Any]) -> Any:
    return await writer.ask(question)


async def test_a_restart_tells_of_the_gap_and_of_events_only_once(tmp_path: Any) -> None:
    settings = DashboardSettings(history_file=str(tmp_path / "h"), history_interval=1.0)  # type: ignore[arg-type]

    def run(clock: SetClock) -> HistoryWriter:
        writer = open_history(settings, clock)
        view = LiveView(clock, history=writer, history_interval=1.0)
        view.all_observed()
        view.patch()
        shown = {
            "apiVersion": "events.k8s.io/v1",
            "metadata": {"name": "e1"},
            "reportingController": "ullage.dev/scheduler",
        }
        when = {"eventTime": "2026-01-01T00:00:00.000000Z", "regarding": {"kind": "Pod", "namespace": "a", "name": "b"}}
        said = read_decision({**shown, **when, "reason": "Scheduled", "note": "x"})
        view.observe(Added(ObjectKey("a", "e1"), said))
        clock.time, clock.passed = clock.time + 2, clock.passed + 2
        view.patch()
        return writer

    first = run(SetClock(NOW))
    first.close()
    second = run(SetClock(NOW + 1000))
    try:
        said = await recorded(second, lambda log: what_changed(log, NOW + 500, 3000.0))
        assert said.counts == {"HistoryGap": 1, "Scheduled": 1}
        gap = next(one for one in said.changes if one.reason == "HistoryGap")
        assert gap.at == NOW + 1000
        assert gap.first is not None
        assert gap.first < NOW + 10
    finally:
        second.close()


async def test_a_jump_of_the_clock_is_told() -> None:
    clock = SetClock(NOW)
    writer = open_history(DashboardSettings(), clock)
    try:
        for time, passed in ((NOW + 10, 10.0), (NOW - 3600, 20.0), (NOW - 3590, 30.0), (NOW + 9000, 40.0)):
            writer.keep([], now=time, steady=passed)
        said = await recorded(writer, lambda log: [one.reason for one in log.changes(0, 2 * NOW)])
        assert said == ["ClockJumpedBack", "ClockJumpedAhead"]
    finally:
        writer.close()
