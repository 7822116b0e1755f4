"""Nothing outlives the test run: not when it is killed, not when its whole process group is, not on Ctrl-C."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ullage.testing.controlplane.fixtures import prepare
from ullage.testing.controlplane.launcher import wait_until
from ullage.testing.controlplane.spec import BASE, ControlPlaneSpec

pytestmark = [pytest.mark.real, pytest.mark.fault]

TEST_RUN = """
import signal, sys
from ullage.testing.controlplane import BASE, ControlPlane

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background starts programs deaf to it

plane = ControlPlane()
plane.start_all()
print(plane.folder, *(plane.pid(program) for program in BASE), flush=True)
sys.stdin.read()
"""


@dataclass
class Run:
    """A test run of its own, with a control plane that is up."""

    process: "subprocess.Popen[str]"
    folder: Path
    pids: list[int]

    def leftovers(self) -> list[str]:
        alive = [f"process {pid}" for pid in self.pids if _is_alive(pid)]
        return alive + ([str(self.folder)] if self.folder.exists() else [])


@pytest.fixture
def run() -> Iterator[Run]:
    prepare(ControlPlaneSpec())
    with subprocess.Popen(
        [sys.executable, "-c", TEST_RUN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            folder, *pids = process.stdout.readline().split()
            run = Run(process, Path(folder), [int(pid) for pid in pids])
            assert len(run.leftovers()) == len(BASE) + 1, "everything is up before the blow"
            yield run
        finally:
            process.kill()


def _is_alive(pid: int) -> bool:
    try:
        # A zombie has ended; only its parent has not looked yet.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_killed_test_run_leaves_no_process_and_no_folder(run: Run) -> None:
    run.process.kill()
    assert wait_until(lambda: not run.leftovers(), 5.0), run.leftovers()


def test_killing_the_whole_process_group_leaves_nothing_either(run: Run) -> None:
    os.killpg(run.process.pid, signal.SIGKILL)
    assert wait_until(lambda: not run.leftovers(), 5.0), run.leftovers()


def test_an_interrupted_test_run_leaves_nothing(run: Run) -> None:
    os.killpg(run.process.pid, signal.SIGINT)
    run.process.wait(timeout=10)
    assert wait_until(lambda: not run.leftovers(), 5.0), run.leftovers()


def test_programs_die_even_with_the_watchdog(run: Run) -> None:
    watchdog = int(Path(f"/proc/{run.pids[0]}/stat").read_text().rsplit(")", 1)[1].split()[1])
    assert watchdog != run.process.pid
    os.kill(watchdog, signal.SIGKILL)
    assert wait_until(lambda: not any(map(_is_alive, run.pids)), 5.0), run.leftovers()
    # Nobody is left to remove the folder; here the test does.
    shutil.rmtree(run.folder)


def test_the_command_ends_everything_on_ctrl_c() -> None:
    prepare(ControlPlaneSpec())
    with subprocess.Popen(
        [sys.executable, "-m", "ullage.testing.controlplane", "up"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            said = {}
            for line in process.stdout:
                key, _, value = line.partition(":")
                said[key] = value.strip()
                if line.startswith("Ctrl-C"):
                    break
            folder = Path(said["logs"])
            assert Path(said["kubeconfig"]).is_file()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=10) == 0
            assert not folder.exists()
        finally:
            process.kill()
