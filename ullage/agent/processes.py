"""Processes of this machine from `/proc`: their pods and their names."""

from pathlib import Path

from ullage.decide.inventory.owners import pod_of


class ProcFs:
    """The host's `/proc`. The agent sees all processes there only if it shares the host's PID namespace."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root

    def owner(self, pid: int) -> str | None:
        """Uid of the process' pod, empty for a process of the host; None if there is no such process."""
        cgroups = self._read(pid, "cgroup")
        return None if cgroups is None else pod_of(cgroups)

    def name(self, pid: int) -> str:
        """Name of the process; empty if it is gone."""
        return (self._read(pid, "comm") or "").strip()

    def boot_id(self) -> str:
        """Boot id of the machine, new after each boot; empty where it cannot be read."""
        try:
            return (self._root / "sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return ""

    def _read(self, pid: int, name: str) -> str | None:
        try:
            return (self._root / str(pid) / name).read_text(errors="replace")
        except OSError:
            return None
