"""`ullage demo` as a newcomer sees it."""

import sys
from pathlib import Path
from subprocess import run

DEMO = (Path(sys.executable).with_name("ullage"), "demo")


def test_four_nodes_ten_pods_and_why_two_wait() -> None:
    done = run(DEMO, capture_output=True, text=True, check=True, env={"COLUMNS": "100"})
    rows = [line for line in done.stdout.splitlines() if line.startswith("│")]
    assert sum("gpu-" in row.split("│")[1] for row in rows) == 4
    assert sum("Running" in row for row in rows) == 8
    assert sum("(waits)" in row for row in rows) == 2
    assert "10 GPUs are idle, 2 pods wait: no node has the 8 free that each asks for." in done.stdout


def test_the_same_seed_prints_the_same() -> None:
    seen = {
        run((*DEMO, "--seed", "3"), capture_output=True, check=True, env={"PYTHONHASHSEED": hashes}).stdout
        for hashes in ("0", "1", "2")
    }
    assert len(seen) == 1
