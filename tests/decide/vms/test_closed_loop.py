"""Agents and scheduler together: bursty VMs, a scheduler that restarts every ten minutes, and a calm end."""

from itertools import pairwise

import pytest

from tests.decide.vms.closed_loop import ClosedLoop
from ullage.model.vm import RestartRule

MINUTE = 60


def run(town: ClosedLoop, seconds: int) -> None:
    for second in range(seconds):
        town.second()
        if second % 600 == 599:
            town.restart_scheduler()
        if second % 5 == 4:
            town.check()
    town.calm_down()
    for _ in range(10 * MINUTE):
        town.second()
    assert not town.migrations, "migrations settle"
    assert not town.core.unrelieved
    assert not town.denied_now()
    assert town.denied > 0, "nobody was ever denied: the load is too small to show anything"
    assert town.ended["Succeeded"] > 0
    for times in town.started.values():
        assert all(later - earlier >= 900 for earlier, later in pairwise(times)), "no VM twice within its cool-down"


@pytest.mark.full  # every run has two hours of the whole world: tests/sim/world/test_vms.py
@pytest.mark.story
def test_two_hours_of_ten_nodes_with_twenty_vms_each() -> None:
    town = ClosedLoop(nodes=10, vms_per_node=20, seed=7)
    run(town, 120 * MINUTE)
    assert town.ended["Failed"] > 0


@pytest.mark.story
def test_twenty_minutes_with_maxima_assumed_after_each_restart() -> None:
    run(ClosedLoop(nodes=10, vms_per_node=20, seed=7, restart=RestartRule.ASSUME_MAX), 20 * MINUTE)
