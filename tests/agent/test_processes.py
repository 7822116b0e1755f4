"""Processes as `/proc` has them."""

import os
from pathlib import Path

from ullage.agent.poller import GpuPoller
from ullage.agent.processes import ProcFs
from ullage.agent.simulated import SimulatedReader, read_gpu_set
from ullage.clock import WallClock

UID = "0d9f3c1e-52f4-4c1b-9a63-0f6a4b7c8d9e"


def a_process(proc: Path, pid: int, cgroup: str, comm: str = "python") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cgroup").write_text(cgroup)
    (folder / "comm").write_text(f"{comm}\n")


def test_whose_a_process_is(tmp_path: Path) -> None:
    a_process(tmp_path, 1, f"0::/kubepods/pod{UID}/x\n")
    a_process(tmp_path, 2, "0::/system.slice/sshd.service\n", "sshd")
    proc = ProcFs(tmp_path)
    assert proc.owner(1) == UID
    assert proc.owner(2) == ""
    assert proc.owner(3) is None
    assert (proc.name(2), proc.name(3)) == ("sshd", "")


def test_this_very_process_is_found_and_the_machine_has_a_start() -> None:
    proc = ProcFs()
    assert proc.owner(os.getpid()) is not None
    assert proc.name(os.getpid())
    assert proc.boot_id() == proc.boot_id() != ""


async def test_what_belongs_on_gpus_is_nobodys_stray(tmp_path: Path) -> None:
    a_process(tmp_path, 7, "0::/system.slice/mps.service\n", "nvidia-cuda-mps")
    a_process(tmp_path, 8, "0::/user.slice\n", "miner")
    a_process(tmp_path, 9, f"0::/kubepods/pod{UID}/x\n", "nvidia-cuda-mps")
    reader = SimulatedReader(read_gpu_set("L4"), "n")
    reader.runs(0, 7, 8, 9, 10)
    findings = await GpuPoller(reader, ProcFs(tmp_path), WallClock()).look(thorough=True)
    assert findings.occupants == {0: {8: "", 9: UID}}
    assert findings.known_gpus.devices[0].in_use_by == (UID,)
