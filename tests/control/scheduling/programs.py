"""`ullage scheduler` as a program: started, watched, ended."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

PROGRAM = Path(sys.executable).with_name("ullage")
ALONE = "--no-leader-election"
_LAST_WORDS = 4000


class Programs:
    """Everything started here is ended with the block, and a program that ended by itself is an error."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[subprocess.Popen[bytes], Path] = {}
        self._started = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        said = self.said()
        for process in list(self._running):
            self.kill(process)
        if said:
            sys.stderr.write(said)  # pytest shows it beside a failure

    def scheduler(self, kubeconfig: Path, *options: str) -> subprocess.Popen[bytes]:
        """Start one."""
        self._started += 1
        log = self._folder / f"scheduler-{self._started}.log"
        command: Sequence[str | Path] = (PROGRAM, "scheduler", "--kubeconfig", kubeconfig, *options)
        with log.open("wb") as words:
            process = subprocess.Popen(command, stdout=words, stderr=subprocess.STDOUT)
        self._running[process] = log
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL: no clean-up of its own."""
        process.kill()
        process.wait()
        self._running.pop(process, None)

    def check_running(self) -> None:
        """Fails with its last words if one ended by itself."""
        for process in self._running:
            if process.poll() is not None:
                raise AssertionError(f"a scheduler ended with {process.returncode}:\n{self.said()}")

    def said(self) -> str:
        """The end of what each of them wrote."""
        logs = ((log.name, log.read_bytes()[-_LAST_WORDS:].decode(errors="replace")) for log in self._running.values())
        return "".join(f"--- {name}\n{words}\n" for name, words in logs if words)
