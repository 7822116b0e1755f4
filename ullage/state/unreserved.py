"""Leases whose GPU a DRA driver publishes and no reservation withholds: kube-scheduler could give that GPU, too.

A reservation is a ResourceClaim of ours with the name of the Lease. Built from events alone. Leases and ResourceClaims
come by different watches, and a bind writes one after the other, so a Lease counts only after SETTLED_AFTER seconds
without its reservation; one that had it and lost it, after LOST_AFTER. And reservations that are being deleted and
whose Lease is gone: they are to be let go. Pure: time is an argument.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ullage.model.device import Inventory
from ullage.model.dra import AllocatedDevice, ResourceClaim, ResourceSlice, WithheldGpu
from ullage.model.fact_event import Deleted, FactEvent, Synced
from ullage.model.lease import GpuLease
from ullage.model.units import Instant, Seconds, after
from ullage.state.deadlines import DeadlineQueue

SETTLED_AFTER = Seconds(5.0)
"""Seconds a new Lease may be without its reservation."""
LOST_AFTER = Seconds(0.5)
"""Seconds after which a reservation that was observed and is gone counts as lost. A Lease that goes takes its
reservation along, and the two events may come in any order."""

Published = Callable[[str, int], WithheldGpu | None]
"""Names by which DRA drivers publish one GPU of a node; None where none does."""


class UnreservedLeases:
    """UnreservedLeases: Leases that lack their reservation, with the instant each is due."""

    def __init__(self, namespace: str, published: Published) -> None:
        """`published` answers for the snapshot, which has taken in every event that `apply` gets."""
        self._namespace = namespace
        self._published = published
        self._leases: dict[str, GpuLease] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._node_of: dict[str, str] = {}
        """Node of each GPU, by UUID."""
        self._reserved: dict[str, tuple[AllocatedDevice, ...]] = {}
        """Devices that each reservation withholds, by name."""
        self._deleting: set[str] = set()
        """Reservations that are being deleted, by name."""
        self._due: DeadlineQueue[str] = DeadlineQueue()
        self._left: DeadlineQueue[str] = DeadlineQueue()

    def apply(self, event: FactEvent[Any], *, now: Instant) -> None:
        """Take in an event of any source; what is not about leased GPUs is passed over."""
        if isinstance(event, Synced):
            return
        fact, gone = (event.old, True) if isinstance(event, Deleted) else (event.new, False)
        match fact:
            case GpuLease():
                self._apply_lease(fact, now, gone=gone)
            case ResourceClaim() if fact.key.namespace == self._namespace:
                self._apply_claim(fact, now, gone=gone)
            case ResourceSlice():
                old = None if gone else getattr(event, "old", None)
                uuids = {uuid for one in (old, fact) if one is not None for _, uuid in one.gpus}
                self._check_nodes({self._node_of[uuid] for uuid in uuids if uuid in self._node_of}, now)
            case Inventory():
                self._apply_inventory(getattr(event, "old", None), None if gone else fact, now)

    def next_due(self) -> Instant | None:
        """Return the next instant at which a Lease or a reservation is due; None if nothing is to be done."""
        return min((at for at in (self._due.next_at(), self._left.next_at()) if at is not None), default=None)

    def take_due(self, *, now: Instant) -> list[tuple[GpuLease, WithheldGpu]]:
        """Leases to reserve now, with the names to withhold. Each comes again should it still lack them by then."""
        found = []
        while (name := self._due.take_due(now)) is not None:
            lease, wanted = self._leases[name], self._lacks(name)
            if wanted is not None:
                found.append((lease, wanted))
        for lease, _ in found:
            self._due.put(lease.name, Instant(now + SETTLED_AFTER))
        return found

    def take_left(self, *, now: Instant) -> list[str]:
        """Names of reservations to let go now. Each comes again should it still be there by then."""
        found = []
        while (name := self._left.take_due(now)) is not None:
            found.append(name)
        for name in found:
            self._left.put(name, Instant(now + SETTLED_AFTER))
        return found

    def postpone(self, name: str, *, until: Instant) -> None:
        """Do not return this Lease before this instant, if it still lacks its reservation then."""
        if self._due.due(name) is not None:
            self._due.put(name, until)

    def _apply_lease(self, lease: GpuLease, now: Instant, *, gone: bool) -> None:
        if gone:
            self._leases.pop(lease.name, None)
            self._on_node.get(lease.node, {}).pop(lease.name, None)
            self._due.drop(lease.name)
            self._check_left(lease.name, now)
            return
        self._leases[lease.name] = lease
        self._left.drop(lease.name)
        self._on_node.setdefault(lease.node, {})[lease.name] = None
        self._recheck(lease.name, Instant(now + SETTLED_AFTER))

    def _apply_claim(self, claim: ResourceClaim, now: Instant, *, gone: bool) -> None:
        name = claim.key.name
        before = self._reserved.pop(name, ())
        if not gone and claim.withheld:
            self._reserved[name] = claim.withheld
        if not gone and claim.deleting:
            self._deleting.add(name)
        else:
            self._deleting.discard(name)
        if name in self._leases:
            self._recheck(name, after(now, LOST_AFTER if before else SETTLED_AFTER))
        else:
            self._check_left(name, now)

    def _check_left(self, name: str, now: Instant) -> None:
        if name not in self._deleting:
            self._left.drop(name)
        elif self._left.due(name) is None:
            self._left.put(name, Instant(now + LOST_AFTER))

    def _apply_inventory(self, old: Inventory | None, new: Inventory | None, now: Instant) -> None:
        before, after = _uuids(old), _uuids(new)
        if before == after:
            return
        for uuid in before:
            self._node_of.pop(uuid, None)
        if new is not None:
            self._node_of |= dict.fromkeys(after, new.node)
        self._check_nodes({one.node for one in (old, new) if one is not None}, now)

    def _check_nodes(self, nodes: Iterable[str], now: Instant) -> None:
        for node in sorted(nodes):
            for name in self._on_node.get(node, {}):
                self._recheck(name, Instant(now + LOST_AFTER))

    def _recheck(self, name: str, due: Instant) -> None:
        if self._lacks(name) is None:
            self._due.drop(name)
        elif self._due.due(name) is None:
            self._due.put(name, due)

    def _lacks(self, name: str) -> WithheldGpu | None:
        """Names to withhold for this Lease; None if its reservation withholds them, or nothing is to be withheld."""
        lease = self._leases[name]
        wanted = self._published(lease.node, lease.device) if lease.holds else None
        if wanted is None or {(one.pool, one.name) for one in self._reserved.get(name, ())} == set(wanted.names):
            return None
        return wanted


def _uuids(inventory: Inventory | None) -> tuple[str, ...]:
    return () if inventory is None else tuple(device.uuid for device in inventory.devices)
