"""One seed, one story, to the byte: whatever Python's own hashing does, and whatever machine runs it."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.story


def a_day(seed: int, hash_seed: str) -> bytes:
    """What the busy day prints in a process of its own."""
    command = [sys.executable, "-m", "tests.sim.busy_day", str(seed)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONHASHSEED": hash_seed}, capture_output=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout


def test_a_run_is_equal_to_the_byte_under_two_hash_seeds() -> None:
    first, second = a_day(5, "1"), a_day(5, "4242")
    assert first == second

    lines = first.decode().splitlines()
    story = "\n".join(lines)
    for proof in (
        "leads term 1",
        "crash",
        "freeze",
        "partition",
        "compact",
        "hears Added",
        "hears Deleted",
        " 409 ",
    ):
        assert proof in story, f"a busy day should have seen: {proof}"
    assert any(node for _, _, node in json.loads(lines[-1]))


@pytest.mark.full
def test_another_seed_is_another_story() -> None:
    assert a_day(5, "1") != a_day(6, "1")
