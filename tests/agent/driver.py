"""The stand-in for NVIDIA's driver: compiled from our own C, told by a text file what GPUs there are."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).parent / "nvml_stub" / "nvml_stub.c"
LIBRARY = "libnvidia-ml.so.1"
VOLTA, AMPERE, HOPPER, BLACKWELL = 5, 7, 9, 10
MIB_OF_80G, MIB_OF_40G = 81559, 40960


class NoCompiler(Exception):
    """The stand-in cannot be made here."""


def compiled(folder: Path) -> Path:
    """The library, in this folder."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoCompiler("NO C COMPILER: the NVML reader is not tested; install gcc (Debian: apt-get install gcc)")
    made = folder / LIBRARY
    flags = ("-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-pthread", f"-Wl,-soname,{LIBRARY}")
    subprocess.run((compiler, *flags, "-o", made, SOURCE), check=True, capture_output=True, text=True)
    return made


@dataclass
class Driver:
    """A scenario that can be changed while it is being looked at."""

    library: Path
    scenario: Path
    lines: list[str] = field(default_factory=list)

    def write(self, lines: Iterable[str]) -> None:
        """This and nothing else is so from now on."""
        self.lines = list(lines)
        fresh = self.scenario.with_suffix(".new")
        fresh.write_text("\n".join(self.lines) + "\n")
        # Two writes within a tick of the clock must not look like one.
        os.utime(fresh, ns=(stamp := time.time_ns(), stamp))
        fresh.replace(self.scenario)

    def also(self, *lines: str) -> None:
        """This is so, too."""
        self.write([*self.lines, *lines])

    def no_longer(self, *beginnings: str) -> None:
        """Lines that begin so are taken away."""
        self.write([line for line in self.lines if not line.startswith(beginnings)])


def dgx_h100() -> list[str]:
    """Eight GPUs, eighteen links each, all to switches."""
    gpus = [f"gpu {n} GPU-h100-{n} NVIDIA_H100_80GB_HBM3 {MIB_OF_80G} {HOPPER}" for n in range(8)]
    return [*gpus, *(f"switch {n} 18" for n in range(8))]


def pcie_box() -> list[str]:
    """Four GPUs without NVLink."""
    return [f"gpu {n} GPU-a100-{n} NVIDIA_A100-PCIE-40GB {MIB_OF_40G} {AMPERE}" for n in range(4)]


def mig_box() -> list[str]:
    """Two GPUs, the first split in two."""
    parts = ["mig 0", "part 0 MIG-a 3g.40gb 40192", "part 0 MIG-b 1g.10gb 9728"]
    return [f"gpu {n} GPU-mig-{n} NVIDIA_H100_80GB_HBM3 {MIB_OF_80G} {HOPPER}" for n in range(2)] + parts


def a_process(proc: Path, pid: int, uid: str) -> None:
    """A process of this pod, in a folder that stands for /proc."""
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cgroup").write_text(f"0::/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/crio-1.scope\n")
    (folder / "comm").write_text("python\n")
