"""Keys of the terminal that a demo runs in: read one by one, without echo; the terminal is as it was afterwards."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

MOST_AT_ONCE = 3
"""Characters that come together from fingers. More are a paste, and mean nothing."""
_READ = 256
_SEQUENCES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)?")
"""Arrows and other keys that send more than one character."""


class Keyboard:
    """Keys of a terminal; of none, where there is no terminal to read from."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def __bool__(self) -> bool:
        return self._descriptor is not None

    @contextmanager
    def listening(self, on_key: Callable[[str], object]) -> Iterator[None]:
        """Call back with every key during the block, in the running loop."""
        descriptor, loop = self._descriptor, asyncio.get_running_loop()
        if descriptor is None:
            yield
            return

        def read() -> None:
            try:
                typed = os.read(descriptor, _READ)
            except OSError:
                typed = b""
            if not typed:  # the terminal is gone
                loop.remove_reader(descriptor)
            for key in keys_of(typed.decode(errors="ignore")):
                on_key(key)

        loop.add_reader(descriptor, read)
        try:
            yield
        finally:
            loop.remove_reader(descriptor)


def keys_of(typed: str) -> str:
    """Keys in what came from the terminal at once."""
    plain = _SEQUENCES.sub("", typed)
    return plain if len(plain) <= MOST_AT_ONCE else ""


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """Keyboard of this process's terminal, if it has one and is in its foreground."""
    try:
        import termios
        import tty

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        mine = os.tcgetpgrp(descriptor) == os.getpgrp()
    except (ImportError, OSError, ValueError, AttributeError, termios.error):
        mine = False
    if not mine:
        yield Keyboard(None)
        return
    tty.setcbreak(descriptor)
    try:
        yield Keyboard(descriptor)
    finally:
        # Asked for from the background, this would stop the process.
        ignored = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTTOU, ignored)
