"""Runs on a Ray cluster that this test starts on loopback: the same results as here."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim.experiment.test_running import a_recipe
from ullage.errors import UserError
from ullage.sim.experiment.ray_workers import run_on_ray
from ullage.sim.experiment.run import RunOutcome, perform
from ullage.testing.controlplane.ports import reserve_port

HOST = "127.0.0.2"
"""Loopback, too; Ray takes the first address of it for the machine's own outside address."""
STARTED = "Ray runtime started"
PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster with one core. All its processes are one group, which ends with the test."""
    pytest.importorskip("ray")
    port = reserve_port()
    address = f"{HOST}:{port.port}"
    folder = Path(tempfile.mkdtemp(prefix="ray-"))  # pytest's own are too long for Ray's sockets
    log = folder / "head.log"
    with log.open("wb") as out:
        head = subprocess.Popen(
            (Path(sys.executable).with_name("ray"), "start", "--head", "--block", *_options(port.port, folder)),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while STARTED not in log.read_text():
            assert head.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield address
    finally:
        os.killpg(head.pid, signal.SIGKILL)
        head.wait()
        shutil.rmtree(folder, ignore_errors=True)
        port.release()


def _options(port: int, folder: Path) -> tuple[str, ...]:
    return (
        f"--node-ip-address={HOST}",
        f"--port={port}",
        f"--temp-dir={folder}",
        "--num-cpus=1",
        "--object-store-memory=100000000",
        "--include-dashboard=false",
        "--disable-usage-stats",
        "--min-worker-port=0",
        "--max-worker-port=0",
        "--dashboard-agent-listen-port=0",
    )


@pytest.mark.full  # a Ray cluster takes half a minute of both cores to start
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.timeout(180)
def test_results_are_those_of_local_runs(cluster: str) -> None:
    recipes = [a_recipe(policy=policy, jobs=5) for policy in ("packing", "spread")]
    done: dict[int, RunOutcome] = {}
    there = run_on_ray(cluster, recipes, keep_steps=True, on_done=done.__setitem__)
    assert there == [perform(recipe, keep_steps=True) for recipe in recipes]
    assert [done[place] for place in (0, 1)] == there


def test_a_cluster_that_is_not_there_is_named() -> None:
    port = reserve_port()
    address = f"{HOST}:{port.port}"
    with pytest.raises(UserError, match=rf"--ray {address}: no Ray cluster answers there"):
        run_on_ray(address, [a_recipe()], keep_steps=False, on_done=lambda _place, _outcome: None)
    port.release()
