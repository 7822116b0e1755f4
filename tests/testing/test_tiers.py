"""The count by tier at the end of a run, and what is left to `--full`."""

import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = """
import pytest
from hypothesis import given, strategies as st

def test_plain(): pass

@given(st.integers())
def test_law(n): pass

@pytest.mark.story
def test_story(): pass

@pytest.mark.real
def test_on_the_real_thing(): pass

@pytest.mark.fault
@pytest.mark.real
def test_misfortune(): pass

@pytest.mark.full
def test_long(): raise AssertionError("only with --full")

def test_left_out(): pytest.skip("no GPU here")
"""


@pytest.fixture(
    scope="module",
    params=[pytest.param((), id="one process"), pytest.param(("--numprocesses", "2"), id="two processes")],
)
def sample_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> subprocess.CompletedProcess[str]:
    return run_sample(tmp_path_factory.mktemp("sample"), *request.param)


def run_sample(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "contract").mkdir()
    (folder / "test_sample.py").write_text(SAMPLE)
    (folder / "contract" / "test_contract.py").write_text("def test_promise(): pass\n")
    command = (sys.executable, "-m", "pytest", "-q", "-p", "ullage.testing.tiers", "-p", "no:cacheprovider")
    return subprocess.run((*command, *arguments, "."), cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "line",
    [
        "unit              1 ran",
        "property          1 ran",
        "story             1 ran",
        "contract          1 ran",
        "end-to-end        1 ran",
        "fault             1 ran",
        "unit              1 skipped: no GPU here",
        "on the real control plane: 2 of them",
    ],
)
def test_the_run_ends_with_a_count(line: str, sample_run: subprocess.CompletedProcess[str]) -> None:
    assert sample_run.returncode == 0, sample_run.stdout
    assert line in sample_run.stdout.split("tests by tier")[1]


def test_long_sizes_run_only_when_asked(tmp_path: Path) -> None:
    done = run_sample(tmp_path, "--full")
    assert done.returncode == 1
    assert "only with --full" in done.stdout
