"""moto as a process of its own, on a loopback port. It ends when the test run does, however that ends."""

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from ullage.testing.controlplane.ports import reserve_port

_UNTIL_STDIN_CLOSES = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
from moto.server import main
main(["-H", "127.0.0.1", "-p", sys.argv[1]])
"""
PATIENCE = 60.0


@contextmanager
def running_moto() -> Iterator[str]:
    """Its address."""
    reservation = reserve_port()
    url = f"http://127.0.0.1:{reservation.port}"
    process = subprocess.Popen(
        [sys.executable, "-c", _UNTIL_STDIN_CLOSES, str(reservation.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_it_answers(url, process)
        yield url
    finally:
        process.kill()
        process.communicate()
        reservation.release()


def _wait_until_it_answers(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(f"{url}/moto-api/data.json", timeout=5):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
