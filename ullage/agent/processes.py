"""Processes of this machine, as `/proc` has them: whose they are and what they are called."""

from pathlib import Path

from ullage.decide.inventory.owners import pod_of


class ProcFolder:
    """The host's `/proc`. The agent sees all processes there only if it shares the host's process ids."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root

    def owner(self, pid: int) -> str | None:
        """The uid of its pod, empty for one of the host; None if there is no such process."""
        cgroups = self._read(pid, "cgroup")
        return None if cgroups is None else pod_of(cgroups)

    def name(self, pid: int) -> str:
        """What it is called; empty if it is gone."""
        return (self._read(pid, "comm") or "").strip()

    def boot_id(self) -> str:
        """Another one after each start of the machine; empty where nobody says."""
        try:
            return (self._root / "sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return ""

    def _read(self, pid: int, name: str) -> str | None:
        try:
            return (self._root / str(pid) / name).read_text(errors="replace")
        except OSError:
            return None
