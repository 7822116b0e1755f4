"""Clocks that differ are shown and told: once when they do, and when they agree again."""

from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from ullage.clock import Instant
from ullage.control.clock_skew import ClockSkew
from ullage.model.device import Inventory, observed_inventory
from ullage.model.fact_event import Added, ObjectKey, Synced, Updated
from ullage.model.lease import GpuLease, LeaseHold
from ullage.observe.scheduler_metrics import SchedulerMetrics

KEY = ObjectKey("", "n")


class StoppedClock:
    """Shows what it is told to."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def now(self) -> Instant:
        return Instant(self.time)


class Scene:
    def __init__(self) -> None:
        self.clock, self.registry = StoppedClock(), CollectorRegistry()
        self.skew = ClockSkew(self.clock, SchedulerMetrics(self.registry))  # type: ignore[arg-type]
        self.last = observed_inventory(None, self._said(0.0), Instant(self.clock.time))

    def _said(self, ahead: float) -> Inventory:
        at = self.clock.time + ahead
        return Inventory(node="n", reported_at=Instant(at), dated=Instant(at), devices=())

    def report(self, ahead: float) -> None:
        self.clock.time += 30
        new = observed_inventory(self.last, self._said(ahead), Instant(self.clock.time))
        self.skew.observe(Updated(KEY, self.last, new))
        self.last = new

    def shown(self, of: str) -> float | None:
        return self.registry.get_sample_value("ullage_clock_skew_seconds", {"of": of})


def test_an_agents_clock_is_told_of_once_and_when_it_is_right_again() -> None:
    scene = Scene()
    with capture_logs() as told:
        for ahead in (1.0, 3600.0, 3600.0, -2.0, 0.0):
            scene.report(ahead)
            if ahead == 3600.0:
                assert scene.shown("agent") == 3600.0
    assert scene.shown("agent") == 0.0
    assert [(one["log_level"], one["event"]) for one in told] == [
        ("warning", "an agent's clock differs from ours"),
        ("info", "an agent's clock agrees with ours again"),
    ]


def test_another_schedulers_clock_is_seen_by_the_leases_it_writes() -> None:
    scene = Scene()
    lease = GpuLease(
        name="gpu-n-0",
        node="n",
        device=0,
        holds=(LeaseHold("u"),),
        shared=False,
        renewed=Instant(scene.clock.time - 120),
        resource_version="1",
    )
    scene.skew.observe(Added(ObjectKey("s", lease.name), lease))
    assert scene.shown("scheduler") == 0.0, "how old it was when we began to listen says nothing"
    scene.skew.observe(Synced("leases"))
    key, patched = ObjectKey("s", lease.name), replace(lease, resource_version="2")
    scene.skew.observe(Updated(key, lease, patched))
    assert scene.shown("scheduler") == 0.0, "a holder was taken out: the write has no time of its own"
    renewed = replace(patched, resource_version="3", renewed=scene.clock.time - 110)
    scene.skew.observe(Updated(key, patched, renewed))
    assert scene.shown("scheduler") == -110.0
