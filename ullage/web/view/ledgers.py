"""Ledgers of nodes that run VMs, as rows: reserved, buffer, watermark and pressure of both resources."""

from ullage.model.vm import LedgerRow
from ullage.state.vm_room import VmRoom
from ullage.web.view.patch import SectionTable
from ullage.web.view.rows import LedgerBar, VmNodeRow


class VmLedgers:
    """Rows of all VM nodes. Rows are looked at only after a number of the ledger has changed."""

    def __init__(self, room: VmRoom) -> None:
        self.table = SectionTable()
        self._room = room
        self._shown: int | None = None
        """Version of the ledger that the rows show."""

    def renew(self) -> None:
        """Bring the rows up to date."""
        if self._shown == self._room.version or not self._room.active:
            return
        self._shown = self._room.version
        ledger = self._room.ledger
        nodes = [node for node in ledger.nodes() if ledger.has_vms(node)]
        for gone in self.table.rows.keys() - set(nodes):
            self.table.drop(gone)
        for node in nodes:
            rows = ledger.ledger(node)
            pods = ledger.pods_on(node)
            moving = sum(ledger.migrating(pod) for pod in pods)
            self.table.put(
                node, VmNodeRow(node=node, vms=len(pods), moving=moving, cpu=_bar(rows.cpu), memory=_bar(rows.memory))
            )


def _bar(row: LedgerRow) -> LedgerBar:
    return LedgerBar(
        total=row.total,
        system=row.system,
        watermark=row.watermark,
        reserved=row.reserved,
        buffer=row.buffer,
        denied=row.capacity_pressure,
        leaving=row.pressure_accounted_for,
    )
