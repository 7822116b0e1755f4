"""The test run's end of the watchdog: start, signal and look at the components of one control plane.

Calls block and may come from any thread.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ullage.errors import UllageError
from ullage.testing.controlplane import watchdog as watchdog_script


class WatchdogLost(UllageError):
    """The watchdog ended before it was told to; its programs ended with it."""


class Processes:
    """Programs that live at most as long as this process."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog_script.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Its own session: a signal to the test run's process group must not take the watchdog with it.
            start_new_session=True,
        )
        hello = self._read_answer()
        self.folder = Path(hello["folder"])
        """The temporary folder; gone when the processes are."""

    def start(
        self, name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
    ) -> int:
        """Start a program under a name and return its process id."""
        answer = self._ask(
            do="start",
            name=name,
            command=list(command),
            log=str(log),
            environment={**os.environ, **(environment or {})},
        )
        return int(answer["pid"])

    def exit_code(self, name: str) -> int | None:
        """None while it runs; negative where a signal ended it."""
        code = self._ask(do="poll", name=name)["exit_code"]
        return None if code is None else int(code)

    def send_signal(self, name: str, number: signal.Signals) -> None:
        """Returns after the program has ended if the signal is SIGKILL."""
        self._ask(do="signal", name=name, signal=int(number))

    def close(self) -> None:
        """End every program and remove the folder. Calling it again does nothing."""
        with self._guard:
            if self._watchdog.stdin is not None and not self._watchdog.stdin.closed:
                self._watchdog.stdin.close()
            self._watchdog.wait()
            if self._watchdog.stdout is not None:
                self._watchdog.stdout.close()

    def _ask(self, **request: object) -> dict[str, Any]:
        with self._guard:
            stdin = self._watchdog.stdin
            if stdin is None or stdin.closed:
                raise WatchdogLost("the control plane has been stopped")
            try:
                stdin.write(json.dumps(request) + "\n")
                stdin.flush()
            except BrokenPipeError as error:
                raise WatchdogLost("the watchdog of the control plane is gone") from error
            answer = self._read_answer()
        if "error" in answer:
            raise UllageError(str(answer["error"]))
        return answer

    def _read_answer(self) -> dict[str, Any]:
        stdout = self._watchdog.stdout
        line = stdout.readline() if stdout is not None else ""
        if not line:
            raise WatchdogLost("the watchdog of the control plane is gone")
        answer: dict[str, Any] = json.loads(line)
        return answer


def last_lines(log: Path, count: int = 20) -> list[str]:
    """The end of a log, without reading all of it."""
    try:
        with open(log, "rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - 64 * 1024))
            return stream.read().decode(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []
