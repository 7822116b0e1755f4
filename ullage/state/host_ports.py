"""Host ports in use, by port: a pod that asks for one is compared only with the rows where it is in use."""

from collections.abc import Iterable, Iterator

from ullage.model.shape_terms import ANY_ADDRESS, HostPort
from ullage.state.forking import Forkable


class PortTable(Forkable):
    """Number of pods by host port and row."""

    def __init__(self) -> None:
        self._users: dict[tuple[str, int], dict[str, dict[int, int]]] = {}

    def count(self, row: int, ports: Iterable[HostPort], sign: int) -> None:
        for port in ports:
            by_address = self._users.setdefault((port.protocol, port.port), {})
            by_row = by_address.setdefault(port.address, {})
            by_row[row] = by_row.get(row, 0) + sign
            if not by_row[row]:
                del by_row[row]
            if not by_row:
                del by_address[port.address]
            if not by_address:
                del self._users[port.protocol, port.port]

    def taken(self, port: HostPort) -> frozenset[int]:
        """Rows where it cannot be had."""
        by_address = self._users.get((port.protocol, port.port), {})
        wanted = by_address if port.address == ANY_ADDRESS else (ANY_ADDRESS, port.address)
        return frozenset(row for address in wanted for row in by_address.get(address, ()))

    def is_taken(self, port: HostPort, row: int) -> bool:
        by_address = self._users.get((port.protocol, port.port))
        if by_address is None:
            return False
        wanted = by_address if port.address == ANY_ADDRESS else (ANY_ADDRESS, port.address)
        return any(row in by_address.get(address, ()) for address in wanted)

    def users(self) -> Iterator[tuple[HostPort, int, int]]:
        """Each port in use, with a row and how many pods have it there."""
        for (protocol, port), by_address in self._users.items():
            for address, by_row in by_address.items():
                for row, count in by_row.items():
                    yield HostPort(port=port, protocol=protocol, address=address), row, count
