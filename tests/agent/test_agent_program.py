"""`ullage agent` where it cannot work: a sentence, and an exit code that says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.driver import Driver

PROGRAM = Path(sys.executable).with_name("ullage")


def complaint(*options: str, env: dict[str, str] | None = None) -> str:
    command: tuple[str | Path, ...] = (PROGRAM, "agent", "--node-name", "n", *options)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})})
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


def test_no_library() -> None:
    assert "libnvidia-ml.so.1 is not there" in complaint(env={"LD_LIBRARY_PATH": ""})


@pytest.mark.parametrize(
    ("code", "words"),
    [
        pytest.param(9, "the NVIDIA driver is not loaded", id="not-loaded"),
        pytest.param(999, "the NVIDIA driver does not start (Unknown Error)", id="broken"),
    ],
)
def test_a_driver_that_does_not_start(driver: Driver, code: int, words: str) -> None:
    driver.write([f"driver {code}"])
    said = complaint(env={"LD_LIBRARY_PATH": str(driver.library.parent)})
    assert words in said
    assert "--simulate" in said


def test_a_board_nobody_knows() -> None:
    assert "H100-SXM" in complaint("--simulate", "8xH1000")
