"""The process that owns the components of one control plane, so that they end when the test run ends, however it ends.

Run as a script by an isolated interpreter: standard library only. It makes the temporary folder, starts each program
when told to, and when its standard input closes (the test run has stopped, crashed or was killed) it kills them all and
removes the folder. Should the watchdog itself be killed, the kernel kills the programs (parent-death signal).

One JSON object per line in each direction; every request gets one answer.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
FOLDER_PREFIX = "ullage-controlplane-"


class Watchdog:
    """Children by name, and what may be done to them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._die_with_parent = _parent_death_signal()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "start":
                return self._start(request)
            case "signal":
                return self._signal(request["name"], request["signal"])
            case "poll":
                return {"exit_code": self._children[request["name"]].poll()}
            case unknown:
                return {"error": f"unknown request {unknown!r}"}

    def _start(self, request: dict[str, Any]) -> dict[str, Any]:
        name = request["name"]
        running = self._children.get(name)
        if running is not None and running.poll() is None:
            return {"error": f"{name} is running already"}
        with open(request["log"], "ab") as log:
            child = subprocess.Popen(
                request["command"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=request["environment"],
                start_new_session=True,
                preexec_fn=self._die_with_parent,  # safe here: this process has one thread
            )
        self._children[name] = child
        return {"pid": child.pid}

    def _signal(self, name: str, number: int) -> dict[str, Any]:
        child = self._children[name]
        child.send_signal(number)
        if number == signal.SIGKILL:
            child.wait()
        if number == signal.SIGSTOP:
            # The kernel stops threads one by one: until all stand still, requests are answered.
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return {"exit_code": child.poll()}

    def end(self) -> None:
        """Kill every child, wait until the kernel says it is gone, and leave nothing behind."""
        for child in self._children.values():
            child.kill()
        for child in self._children.values():
            child.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _parent_death_signal() -> Callable[[], None] | None:
    """Makes a new child die with this process; None where the kernel has no such thing."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def die_with_parent() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    return die_with_parent


def main() -> None:
    # The end of the input is the only thing that ends a watchdog: a Ctrl-C or a hang-up is for the test run.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    watchdog = Watchdog(folder)
    try:
        _reply({"folder": str(folder), "pid": os.getpid()})
        for line in sys.stdin:
            try:
                reply = watchdog.answer(json.loads(line))
            except (OSError, KeyError) as error:
                reply = {"error": f"{type(error).__name__}: {error}"}
            _reply(reply)
    finally:
        watchdog.end()


def _reply(reply: dict[str, Any]) -> None:
    # Nobody listening means the test run is gone: the end of the input will say so too.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
