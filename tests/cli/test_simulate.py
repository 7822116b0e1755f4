"""`ullage simulate` as a user meets it: tables, JSON, pages, comparisons, grids, and errors that name what is wrong."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ullage.cli.main import run

T = TypeVar("T")

PROGRAM = Path(sys.executable).with_name("ullage")
JOBS = "name,arrival,duration,gpus\na,0,600,2\nb,10,600,0.5\nc,20,60,2\n"
POOL = """
apiVersion: gpu.scheduling/v1
kind: NodeProvisioner
metadata: {name: pool}
spec:
  provider: {name: simulated, parameters: {bootSeconds: "60"}}
  template:
    resources: {cpu: "32", memory: 128Gi}
    gpus: {model: L4, count: 4, memory: 24Gi}
    pricePerHour: "3.6"
  maxSize: 3
"""


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS)
    return str(path)


def asked(*arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What it prints as JSON."""
    assert run(["simulate", *arguments, "-o", "json", "-q"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.story
def test_a_table_and_a_page(jobs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "out.html"
    assert run(["simulate", "--workload", jobs, "--fleet", "1*4xL4", "--report", str(report)]) == 0
    said = capsys.readouterr()
    rows = {line.split("  ")[0]: line.split()[-1] for line in said.out.splitlines() if line}
    assert rows["pods placed"] == "3"
    assert rows["pods still waiting"] == "0"
    assert "Scheduled" in said.out
    page = report.read_text()
    assert page.count("<svg role=") == 8
    assert str(tmp_path) not in page, "where files are does not matter"


@pytest.mark.story
def test_nodes_are_bought_and_paid_for(jobs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pools.yaml").write_text(POOL)
    scores = asked("--workload", jobs, "--fleet", str(tmp_path / "pools.yaml"), capsys=capsys)["runs"][0]["scores"]
    assert scores["churn"]["bought"] >= 1
    assert scores["cost"]["total"] > 0
    assert scores["waiting"]["all"]["p50"] > 60, "machines take their time"
    assert scores["pods"]["finished"] == 3


@pytest.mark.story
def test_policies_side_by_side(jobs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("scheduling: {policy: spread}\n")
    found = asked(
        "--workload", jobs, "--fleet", "2*4xL4", "--compare", "packing", str(mine), "--jobs", "1", capsys=capsys
    )
    assert [one["label"] for one in found["runs"]] == ["packing", "mine"]
    (beside,) = found["comparison"]
    assert (beside["label"], beside["beside"]) == ("mine", "packing")
    assert beside["settings"] == {"scheduling.policy": ["packing", "spread"]}
    parting = beside["parting"]
    assert parting["first"]["about"] == parting["other"]["about"]
    assert parting["first"]["note"] != parting["other"]["note"]


@pytest.mark.story
def test_a_grid_over_processes(jobs: str, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ("--sweep", "scheduling.policy=packing,spread", "--sweep", "seed=1,2", "--jobs", "2")
    found = asked("--workload", jobs, "--fleet", "2*4xL4", *sweep, capsys=capsys)
    assert [(one["label"], one["seed"]) for one in found["runs"]] == [
        ("scheduling.policy=packing seed=1", 1),
        ("scheduling.policy=packing seed=2", 2),
        ("scheduling.policy=spread seed=1", 1),
        ("scheduling.policy=spread seed=2", 2),
    ]


@pytest.mark.full  # every run compares bytes of an experiment: tests/sim/experiment/test_running.py
@pytest.mark.story
def test_the_program_prints_the_same_bytes_whatever_the_hashes(jobs: str, tmp_path: Path) -> None:
    seen = []
    for place, hashes in enumerate(("0", "123")):
        report = tmp_path / f"{place}.html"
        done = subprocess.run(
            (
                PROGRAM,
                "simulate",
                "--workload",
                jobs,
                "--fleet",
                "1*4xL4",
                "--seed",
                "3",
                "--report",
                report,
                "-o",
                "json",
            ),
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hashes},
        )
        seen.append((done.stdout, report.read_bytes()))
    assert seen[0] == seen[1]


@pytest.mark.story
def test_bad_rows_are_left_out_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS + "d,30,soon,1\n")
    assert run(["simulate", "--workload", str(path), "--fleet", "1*4xL4"]) == 1
    assert f"{path}: row 4 (line 5), column duration: is 'soon'; expected seconds" in capsys.readouterr().err
    assert run(["simulate", "--workload", str(path), "--fleet", "1*4xL4", "--bad-rows", "skip", "-o", "json"]) == 0
    said = capsys.readouterr()
    assert f"left out: {path}: row 4 (line 5), column duration" in said.err
    assert json.loads(said.out)["runs"][0]["workload"]["rows left out"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("--compare", "packing"), "name at least two policies", id="one-policy"),
        pytest.param(("packing", "spread"), "policies are named after --compare", id="no-compare"),
        pytest.param(
            ("--compare", "packing", "sprad"),
            "sprad: no such settings file, and no policy; did you mean spread?",
            id="no-policy",
        ),
        pytest.param(("--duration", "soon"), "--duration: is 'soon'; allowed: a time", id="no-time"),
        pytest.param(("--sweep", "scheduling.policy=x"), "--sweep: scheduling.policy: is 'x'; allowed:", id="no-value"),
        pytest.param(("--settings", "/nowhere.yaml"), "/nowhere.yaml: no such file", id="no-settings"),
        pytest.param(("--fleet", "3*9xNothing"), "of a known GPU", id="no-gpu"),
        pytest.param(("--ray", "127.0.0.1:1"), "--ray 127.0.0.1:1: no Ray cluster answers there", id="no-ray"),
    ],
)
def test_what_is_wrong_is_a_sentence(
    arguments: tuple[str, ...], said: str, jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", "--workload", jobs, "--fleet", "1*4xL4", *arguments]) == 1
    assert said in capsys.readouterr().err


def test_a_policy_file_with_an_error_names_file_field_and_what_is_allowed(
    jobs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("scheduling:\n  policy: packng\n")
    assert run(["simulate", "--workload", jobs, "--fleet", "1*4xL4", "--settings", str(path)]) == 1
    said = capsys.readouterr().err
    assert (
        f"{path}:2: scheduling.policy: is 'packng'; allowed: fragmentation, best-fit, packing, spread, random" in said
    )


@pytest.mark.fault
def test_whoever_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    arguments = ("--workload", "synthetic", "--fleet", "1*4xL4", "--sweep", "seed=1,2", "--jobs", "2")
    errors = tmp_path / "errors"
    with errors.open("wb") as said:
        program = subprocess.Popen((PROGRAM, "simulate", *arguments), stdout=subprocess.DEVNULL, stderr=said)
    try:
        workers = _until(lambda: found if len(found := _children(program.pid)) >= 3 else None, errors)
    finally:
        program.kill()
        program.wait()
    _until(lambda: None if any(map(_runs, workers)) else True, errors)


def _until(seen: Callable[[], T | None], errors: Path) -> T:
    deadline = time.monotonic() + 60.0
    while (found := seen()) is None:
        assert time.monotonic() < deadline, errors.read_text()
        time.sleep(0.1)
    return found


def _children(parent: int) -> list[int]:
    """Two workers, and the process that looks after what they share."""
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
