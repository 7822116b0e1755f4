"""`ullage demo`, or another verb, on a terminal of its own, with keys to press."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import monotonic

from tests.cli.demo_process import ULLAGE

_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[()].|.)")


class DemoTerminal:
    """A demo in a terminal. What it writes is kept."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self.seen = b""
        """All that was written, with its escape sequences."""
        self._descriptor = descriptor
        self._at = 0

    @property
    def text(self) -> str:
        """What was written since the last `wait_for`, without escape sequences."""
        return _ESCAPES.sub(b"", self.seen[self._at :]).decode(errors="replace")

    def press(self, keys: str) -> None:
        self._at = len(self.seen)
        os.write(self._descriptor, keys.encode())

    def wait_for(self, pattern: str, seconds: float = 120.0) -> re.Match[str]:
        """The first place in what was written since the last key."""
        deadline = monotonic() + seconds
        while (found := re.search(pattern, self.text, re.MULTILINE)) is None:
            assert monotonic() < deadline, f"no {pattern!r}: {self.text.split()[-200:]}"
            self._read(0.2)
        return found

    def ended(self) -> int:
        """Its exit code, when it has ended."""
        deadline = monotonic() + 60
        while (found := os.waitpid(self.pid, os.WNOHANG))[0] == 0:
            assert monotonic() < deadline, self.text[-2000:]
            self._read(0.1)
        self._read(0.1)
        self.pid = 0
        return os.waitstatus_to_exitcode(found[1])

    def ended_by(self, how: signal.Signals) -> int:
        """Its exit code, after a signal."""
        os.kill(self.pid, how)
        return self.ended()

    def modes(self) -> list[object]:
        """Modes of the terminal: whether it echoes, and the like."""
        return termios.tcgetattr(self._descriptor)[:4]

    def _read(self, seconds: float) -> None:
        if select.select([self._descriptor], [], [], seconds)[0]:
            try:
                self.seen += os.read(self._descriptor, 65536)
            except OSError:  # nobody has the other end any more
                return


def demo_on_terminal(
    folder: Path, *arguments: str, columns: int = 140, lines: int = 42, **environment: str
) -> AbstractContextManager[DemoTerminal]:
    """Its temporary files go to `folder`."""
    return on_terminal(folder, "demo", "--no-browser", *arguments, columns=columns, lines=lines, **environment)


@contextmanager
def on_terminal(
    folder: Path, *arguments: str, columns: int = 140, lines: int = 42, **environment: str
) -> Iterator[DemoTerminal]:
    """`ullage` with these arguments, and its temporary files in `folder`."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    left_out = ("DISPLAY", "WAYLAND_DISPLAY", "COLUMNS", "LINES", "NO_COLOR")
    around = {key: value for key, value in os.environ.items() if key not in left_out}
    around |= {"TERM": "xterm-256color", "TMPDIR": str(folder)} | environment
    pid = os.fork()
    if pid == 0:
        os.close(master)
        _become_session(slave)
        os.execve(ULLAGE, [ULLAGE, *arguments], around)
    os.close(slave)
    terminal = DemoTerminal(pid, master)
    try:
        yield terminal
    finally:
        if terminal.pid:
            os.kill(terminal.pid, signal.SIGKILL)
            os.waitpid(terminal.pid, 0)
        os.close(master)


def _become_session(slave: int) -> None:
    """Make the terminal the controlling one of a new session, as a window does."""
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for descriptor in (0, 1, 2):
        os.dup2(slave, descriptor)
