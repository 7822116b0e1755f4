"""`ullage demo` as a process of its own, which is gone when the test is, however that ends."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from ullage.testing.controlplane import MissingProgram
from ullage.testing.controlplane.binaries import find
from ullage.testing.controlplane.versions import GoProgram

ULLAGE = str(Path(sys.executable).with_name("ullage"))


class DemoProcess:
    """Its output is read as it comes."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self.process = process
        self.folder = folder
        """Its folder for temporary files."""
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str, seconds: float = 120.0) -> re.Match[str]:
        """The first line that has it."""
        deadline = monotonic() + seconds
        while monotonic() < deadline:
            for line in list(self.lines):
                if found := re.search(pattern, line):
                    return found
            assert self.process.poll() is None, f"it ended: {self.lines[-5:]}"
            sleep(0.05)
        raise AssertionError(f"no {pattern!r} within {seconds:g} s: {self.lines[-5:]}")

    def stop(self, how: signal.Signals) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(how)
        return self.ended()

    def ended(self, seconds: float = 120.0) -> int:
        code = self.process.wait(timeout=seconds)
        self._reader.join(timeout=5)
        return code

    def hang_up(self) -> None:
        """Read no more: what it writes from now on, nobody wants."""
        assert self.process.stdout is not None
        os.dup2(os.open(os.devnull, os.O_RDONLY), self.process.stdout.fileno())

    def left_behind(self) -> list[str]:
        """Files of its own making."""
        return [path.name for path in self.folder.iterdir()]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))


@contextmanager
def running_demo(folder: Path, *arguments: str) -> Iterator[DemoProcess]:
    """Its temporary files go to `folder`."""
    environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    with _hearing_hangups():
        started = subprocess.Popen(
            [ULLAGE, "demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment | {"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
        )
    with started as process:
        try:
            yield DemoProcess(process, folder)
        finally:
            process.kill()


@contextmanager
def _hearing_hangups() -> Iterator[None]:
    """What is started meanwhile ends when its terminal is closed, also where the tests themselves run under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def kubectl(kubeconfig: str, *arguments: str) -> str:
    """What the real kubectl prints."""
    program = [str(kubectl_program()), "--kubeconfig", kubeconfig, *arguments]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"
    return done.stdout


def kubectl_program() -> Path:
    try:
        return find(GoProgram.KUBECTL)
    except MissingProgram as missing:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"NO KUBECTL: {missing}", pytrace=False)
        pytest.skip(f"NO KUBECTL: {missing}")


def children_of(pid: int) -> Sequence[int]:
    """Processes it has started that are still there."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
