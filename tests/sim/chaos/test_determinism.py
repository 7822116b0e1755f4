"""A chaos story is the same to the byte in another process, whatever Python's own chance is."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.sim.chaos.a_story import STORY, digest


def _digest(hash_seed: str) -> str:
    command, environment = (sys.executable, "-m", "tests.sim.chaos.a_story"), os.environ | {"PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.story
@pytest.mark.fault
def test_a_story_is_the_same_to_the_byte_with_other_hashes_and_another_seed_is_another_story() -> None:
    told = _digest("1")
    assert told == _digest("4711")
    assert told != digest(replace(STORY, seed=12))
