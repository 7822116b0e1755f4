"""Index of watched GPU Leases: by holder and node, with those to be judged again.

Built from events alone. The watch may be late, so nothing is released on what this index says.
"""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from ullage.model.device import Inventory
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Synced, Updated
from ullage.model.lease import GpuLease, HolderPod, LeaseHold
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.units import Instant


class LeaseIndex:
    """LeaseIndex: Leases, and those touched by events. Names are kept in dicts: their order is that of the events."""

    def __init__(self) -> None:
        self.synced: set[str] = set()
        """Sources whose first list is complete."""
        self._leases: dict[str, GpuLease] = {}
        self._first_seen: dict[str, dict[str, Instant]] = {}
        self._of_holder: dict[str, dict[str, None]] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._pods: dict[str, Pod] = {}
        self._gone: dict[str, ObjectKey] = {}
        """Last known key of holders whose pod is gone, by uid."""
        self._nodes: set[str] = set()
        self._inventories: dict[str, Inventory] = {}
        self._touched: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._leases)

    @property
    def touched(self) -> bool:
        """True if Leases are to be judged again."""
        return bool(self._touched)

    def take_touched(self) -> list[str]:
        """Return and clear the Leases that changes since the last call may concern."""
        taken, self._touched = list(self._touched), {}
        return taken

    def lease(self, name: str) -> GpuLease | None:
        return self._leases.get(name)

    def seen(self, lease: GpuLease, hold: LeaseHold) -> GpuLease:
        """The Lease as written for this holder, in our own time: a writer's clock may be any hour ahead or behind.

        Its age counts from when this state of it was first observed. Others write a shared Lease, too, which says
        nothing about this holder; so there it counts from when its own part was.
        """
        first = self._first_seen.get(lease.name, {}).get(hold.part)
        return lease if first is None else replace(lease, renewed=first)

    def holder(self, uid: str) -> HolderPod | None:
        """Pod of this uid as last observed; None if it is gone or was never observed."""
        pod = self._pods.get(uid)
        if pod is None:
            return None
        return HolderPod(
            key=pod.key,
            uid=uid,
            resource_version="",
            node=pod.node,
            over=pod.phase.over,
            devices=pod.gpu_ids,
            instances=pod.gpu_instances,
        )

    def place_of(self, uid: str) -> ObjectKey | None:
        """Return the key of the pod with this uid, or its last known key; None if it was never observed."""
        pod = self._pods.get(uid)
        return self._gone.get(uid) if pod is None else pod.key

    def has_node(self, name: str) -> bool:
        return name in self._nodes

    def inventory(self, node: str) -> Inventory | None:
        return self._inventories.get(node)

    def apply(self, event: FactEvent[Any], *, now: Instant) -> None:
        """Take in an event of any source; what is not about holds is passed over."""
        if isinstance(event, Synced):
            self.synced.add(event.source)
            return
        fact = event.old if isinstance(event, Deleted) else event.new
        match fact:
            case GpuLease():
                self._apply_lease(event, now)
            case Pod():
                self._apply_pod(event, fact)
            case Node() if not isinstance(event, Updated):
                self._apply_node(event, fact.name)
            case Inventory():
                self._apply_inventory(event, fact)

    def _apply_lease(self, event: Added[GpuLease] | Updated[GpuLease] | Deleted[GpuLease], now: Instant) -> None:
        seen: dict[str, Instant] = {}
        if not isinstance(event, Added):
            seen = self._forget(event.old)
        if isinstance(event, Deleted):
            return
        lease = event.new
        self._leases[lease.name] = lease
        self._first_seen[lease.name] = {
            hold.part: seen.get(hold.part, now) if lease.shared else now for hold in lease.holds
        }
        self._on_node.setdefault(lease.node, {})[lease.name] = None
        for hold in lease.holds:
            self._of_holder.setdefault(hold.uid, {})[lease.name] = None
        self._touch((lease.name,))

    def _forget(self, lease: GpuLease) -> dict[str, Instant]:
        """Take a Lease out. Returns when each part of it was first seen held."""
        del self._leases[lease.name]
        self._touched.pop(lease.name, None)
        _drop(self._on_node, lease.node, lease.name)
        for uid in {hold.uid for hold in lease.holds}:
            _drop(self._of_holder, uid, lease.name)
            if uid not in self._of_holder:
                self._gone.pop(uid, None)
        return self._first_seen.pop(lease.name)

    def _apply_pod(self, event: FactEvent[Pod], pod: Pod) -> None:
        held = self._of_holder.get(pod.uid, {})
        if not isinstance(event, Deleted):
            self._pods[pod.uid] = pod
        else:
            self._pods.pop(pod.uid, None)
            if held:
                self._gone[pod.uid] = pod.key
        self._touch(held)

    def _apply_node(self, event: FactEvent[Node], name: str) -> None:
        if isinstance(event, Deleted):
            self._nodes.discard(name)
        else:
            self._nodes.add(name)
        self._touch(self._on_node.get(name, {}))

    def _apply_inventory(self, event: FactEvent[Inventory], inventory: Inventory) -> None:
        if isinstance(event, Deleted):
            self._inventories.pop(inventory.node, None)
        else:
            self._inventories[inventory.node] = inventory
        # Every node reports twice a minute, and only quarantine depends on it.
        self._touch(name for name in self._on_node.get(inventory.node, {}) if self._has_dead_holder(name))

    def _has_dead_holder(self, name: str) -> bool:
        holders = [self._pods.get(hold.uid) for hold in self._leases[name].holds]
        return any(pod is None or pod.phase.over for pod in holders)

    def _touch(self, names: Iterable[str]) -> None:
        self._touched.update(dict.fromkeys(names))


def _drop(index: dict[str, dict[str, None]], key: str, name: str) -> None:
    names = index[key]
    del names[name]
    if not names:
        del index[key]
