"""Free loopback ports that stay ours: two control planes never get the same one, not even after a restart.

Ports lie below the kernel's range for outgoing connections, so no client socket can take one by chance; a lock file per
port, held open for as long as the port is ours, keeps other control planes of the machine away.
"""

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from ullage.errors import UserError

LOWEST_PORT = 10_240


class NoFreePort(UserError):
    """Every port of the range is taken."""


class PortReservation:
    """One loopback port, ours until `release` or until this process ends."""

    def __init__(self, port: int, lock: IO[str]) -> None:
        self.port = port
        self._lock = lock

    def release(self) -> None:
        self._lock.close()


def reserve_port() -> PortReservation:
    """Reserve a port that is free and that no other control plane has reserved."""
    folder = Path(tempfile.gettempdir()) / f"ullage-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for port in _candidates():
        # The lock outlives this function: the reservation owns it.
        lock = open(folder / str(port), "w")  # noqa: SIM115 - closed by the reservation
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        if _nobody_listens(port):
            return PortReservation(port, lock)
        lock.close()
    raise NoFreePort("no free loopback port below the ephemeral range; stop some of the running control planes")


def _candidates() -> Iterator[int]:
    """Every port of the range once, beginning at a place that differs between processes."""
    highest = 32_768
    with suppress(OSError, ValueError, IndexError):
        highest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if highest <= LOWEST_PORT + 1000:
        highest = 65_535
    count = highest - LOWEST_PORT
    start = os.getpid() * 101 % count
    return (LOWEST_PORT + (start + step) % count for step in range(count))


def _nobody_listens(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a port whose old connections linger in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True
