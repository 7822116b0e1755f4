"""The same seed gives the same day to the byte, whatever Python's own chance is; another seed another one."""

import os
import subprocess
import sys

import pytest

from tests.sim.world.a_day import PODS, day, digest


def _digest(seed: int, hash_seed: str) -> str:
    command = (sys.executable, "-m", "tests.sim.world.a_day", str(seed))
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.mark.story
@pytest.mark.full
def test_another_seed_is_another_day() -> None:
    assert _digest(1, "1") != _digest(2, "1")


@pytest.mark.story
def test_the_day_has_everything_in_it_breaks_nothing_and_is_the_same_to_the_byte_in_another_process() -> None:
    result, told = day(3)

    assert digest(result, told) == _digest(3, "4711")
    assert result.violation is None, result.violation
    report = result.report
    assert report["pods"]["waiting"] == 0
    assert report["pods"]["finished"] >= PODS
    assert {"Scheduled", "FailedScheduling", "NodesLaunched", "NodeRemoved"} <= {one.reason for one in told}
    assert report["churn"]["bought"] > 2
    assert set(report["waiting"]) >= {"0", "1", "2", "4", "8", "shared", "all"}
