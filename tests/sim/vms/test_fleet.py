"""Fleets of VMs over hours and a week: no overcommit, nobody starved beside free room, migrations that settle."""

import itertools
import time
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from ullage.model.vm import VmAmounts
from ullage.sim.vms.fleet import FleetGuest, VmFleet
from ullage.sim.vms.fleet_checks import check_fleet
from ullage.sim.vms.fleet_report import FleetReport, nodes_for_maxima
from ullage.sim.vms.fleet_spec import FleetSpec
from ullage.sim.vms.guest_load import LoadStep

pytestmark = pytest.mark.story
GI = 1 << 30
HOUR = 3600
CROWDED = FleetSpec(nodes=10, vms_per_node=20, room=VmAmounts(24_000, 96 * GI), restart_every=600.0)


def lived(spec: FleetSpec, seconds: int, every: int = 60) -> VmFleet:
    """A fleet after so many seconds, checked at every step of `every` seconds and by itself at every change."""
    fleet = VmFleet(spec)
    for second in range(every, seconds + 1, every):
        fleet.run(second)
        check_fleet(fleet)
    return fleet


def test_two_hours_of_ten_nodes_with_twenty_vms_each() -> None:
    report = lived(CROWDED, 2 * HOUR).report
    assert report.denials > 0, "nobody was ever denied: the load is too small to show anything"
    assert report.moved > 0
    assert report.failed > 0
    assert report.restarts == 12


def test_with_migrations_less_is_denied_and_vms_are_short_for_less_time() -> None:
    spec = FleetSpec(nodes=10, vms_per_node=20, room=VmAmounts(28_000, 112 * GI))
    moving = [lived(replace(spec, seed=seed), 4 * HOUR).report for seed in (1, 2)]
    staying = [lived(replace(spec, seed=seed, migrate=False), 4 * HOUR).report for seed in (1, 2)]
    assert [one.moved for one in staying] == [0, 0]
    assert sum(one.denied for one in moving) < sum(one.denied for one in staying)
    assert sum(one.short for one in moving) < sum(one.short for one in staying)


def overcommitted(fleet: VmFleet, guest: FleetGuest) -> None:
    guest.vm = msgspec.structs.replace(guest.vm, use=fleet.spec.room.plus(VmAmounts(1, 0)))


def starved(fleet: VmFleet, guest: FleetGuest) -> None:
    fleet.report.roomy_since[guest.pod.node] = guest.short_since = fleet.now - 61.0


def moved_again(fleet: VmFleet, guest: FleetGuest) -> None:
    guest.migrations[:] = [10.0, 9.0 + fleet.spec.cooldown]


@pytest.mark.parametrize(
    ("breach", "says"),
    [
        pytest.param(overcommitted, "could use", id="more-than-the-node-has"),
        pytest.param(starved, "is starved", id="short-beside-free-room"),
        pytest.param(moved_again, "twice within its cool-down", id="moved-before-it-has-rested"),
    ],
)
def test_the_check_of_a_fleet_can_fail(breach: Callable[[VmFleet, FleetGuest], None], says: str) -> None:
    fleet = lived(FleetSpec(nodes=2, vms_per_node=3, room=VmAmounts(24_000, 96 * GI)), 120)
    breach(fleet, next(iter(fleet.guests.values())))
    with pytest.raises(AssertionError, match=says):
        check_fleet(fleet)


def test_the_same_seed_gives_the_same_fleet() -> None:
    spec = FleetSpec(nodes=3, vms_per_node=10, room=VmAmounts(12_000, 48 * GI), seed=5)

    def told() -> tuple[int, int, int, float, float]:
        report = lived(spec, HOUR).report
        return report.requests, report.changes, report.moved, report.denied, report.short

    assert told() == told()


def test_migrations_settle_when_the_load_does() -> None:
    """Bursts end after an hour; from then on nobody is moved any more."""
    fleet = lived(CROWDED, HOUR)
    for guest in fleet.guests.values():
        guest.following = guest.following._replace(cores=0.3)
        guest.steps = (LoadStep(1e6 * count, 0.3) for count in itertools.count(1))
    for second in range(HOUR + 60, 3 * HOUR, 60):
        fleet.run(second)
        check_fleet(fleet)
    last = max(at for guest in fleet.guests.values() for at in guest.migrations)
    assert last < 2 * HOUR
    assert not any(guest.moving for guest in fleet.guests.values())
    assert not fleet.core.unrelieved


def test_nodes_for_maxima_are_those_without_an_agent() -> None:
    assert nodes_for_maxima(2000, VmAmounts(8_000, 32 * GI), VmAmounts(63_000, 255 * GI)) == 286


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_a_week_of_fifty_nodes_with_forty_vms_each() -> None:
    began = time.process_time()
    report: FleetReport = lived(FleetSpec(), 7 * 24 * HOUR, every=600).report
    assert time.process_time() - began < 30 * 60
    assert report.restarts == 168
    assert report.denials > 0
    assert report.moved > 0
