"""Pressure of a node: the part of logical and capacity pressure that no migration accounts for, and since when."""

import math

from ullage.model.units import Instant, Seconds, after, elapsed
from ullage.model.vm import LedgerRow, NodeLedger, VmAmounts


def unaccounted_pressure(ledger: NodeLedger, capacity_factor: float = 1.0) -> VmAmounts:
    """Pressure that no migrating VM accounts for, per resource. Nothing while both are at or below the watermark."""
    if not ledger.cpu.logical_pressure and not ledger.memory.logical_pressure:
        return VmAmounts(0, 0)
    return VmAmounts(_unaccounted(ledger.cpu, capacity_factor), _unaccounted(ledger.memory, capacity_factor))


def _unaccounted(row: LedgerRow, factor: float) -> int:
    # Rounded up: denied requests never count as nothing.
    pressure = row.logical_pressure + math.ceil(row.capacity_pressure * factor)
    slack = row.pressure_accounted_for + row.buffer + max(0, row.watermark - row.reserved)
    return max(0, pressure - slack)


class PressureTracker:
    """Instants since which nodes have had unaccounted pressure. Forgotten on restart."""

    def __init__(self, sustained: Seconds) -> None:
        self.sustained = sustained
        self._since: dict[str, Instant] = {}
        self._lasting: set[str] = set()
        """Nodes reported to be under lasting pressure: time alone changes nothing about them."""

    def observe(self, node: str, pressure: VmAmounts, *, now: Instant) -> bool:
        """Note the node's pressure; True once it has lasted long enough to act on."""
        if not pressure:
            self.forget(node)
            return False
        # A clock that was set back must not make pressure wait for as long.
        since = self._since[node] = min(self._since.get(node, now), now)
        if elapsed(since, now) < self.sustained:
            return False
        self._lasting.add(node)
        return True

    def forget(self, node: str) -> None:
        """Drop the node: it or its pressure is gone."""
        self._since.pop(node, None)
        self._lasting.discard(node)

    def keep(self, nodes: frozenset[str]) -> None:
        """Drop all nodes but these."""
        for gone in self._since.keys() - nodes:
            self.forget(gone)

    def next_deadline(self) -> Instant | None:
        """Instant at which the next node's pressure will have lasted long enough."""
        waiting = (since for node, since in self._since.items() if node not in self._lasting)
        return min((after(since, self.sustained) for since in waiting), default=None)
