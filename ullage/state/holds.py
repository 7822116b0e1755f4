"""What the watch says about held GPUs: Leases, the pods and nodes they are about, and what to look at again.

Built from events alone. It is a memory of hints: the watch may be late, so nothing is freed on its word.
"""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from ullage.model.device import Inventory
from ullage.model.event import Appeared, Changed, Event, ObjectKey, Synced, Vanished
from ullage.model.lease import GpuLease, Hold, HolderPod
from ullage.model.node import Node
from ullage.model.pod import Pod


class HoldBook:
    """Knows which Leases are touched by an event. Names are kept in dicts: their order is that of the events."""

    def __init__(self) -> None:
        self.synced: set[str] = set()
        """Sources that have told everything at least once."""
        self._leases: dict[str, GpuLease] = {}
        self._first_seen: dict[str, dict[str, float]] = {}
        self._of_holder: dict[str, dict[str, None]] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._pods: dict[str, Pod] = {}
        self._gone: dict[str, ObjectKey] = {}
        """Where holders were found when they were last seen."""
        self._nodes: set[str] = set()
        self._inventories: dict[str, Inventory] = {}
        self._touched: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._leases)

    @property
    def touched(self) -> bool:
        """Whether there is something to look at."""
        return bool(self._touched)

    def take_touched(self) -> list[str]:
        """The Leases whose judgement may have changed since this was last asked."""
        taken, self._touched = list(self._touched), {}
        return taken

    def lease(self, name: str) -> GpuLease | None:
        return self._leases.get(name)

    def seen(self, lease: GpuLease, hold: Hold) -> GpuLease:
        """The Lease as written for this holder, in our own time: a writer's clock may run ahead of ours.

        Others write a shared Lease, too, which says nothing about this holder; so there its age counts from when its
        share was first seen.
        """
        first = self._first_seen.get(lease.name, {}).get(hold.uid)
        if first is None:
            return lease
        return replace(lease, renewed=first if lease.shared else min(first, lease.renewed))

    def holder(self, uid: str) -> HolderPod | None:
        """The pod of this uid, as last heard of; None if it is gone or was never heard of."""
        pod = self._pods.get(uid)
        if pod is None:
            return None
        return HolderPod(
            key=pod.key, uid=uid, resource_version="", node=pod.node, over=pod.phase.over, devices=pod.gpu_ids
        )

    def place_of(self, uid: str) -> ObjectKey | None:
        """Where the pod of this uid is, or was when it was last heard of."""
        pod = self._pods.get(uid)
        return self._gone.get(uid) if pod is None else pod.key

    def has_node(self, name: str) -> bool:
        return name in self._nodes

    def inventory(self, node: str) -> Inventory | None:
        return self._inventories.get(node)

    def apply(self, event: Event[Any], *, now: float) -> None:
        """Take in an event of any source; what is not about holds is passed over."""
        if isinstance(event, Synced):
            self.synced.add(event.source)
            return
        fact = event.old if isinstance(event, Vanished) else event.new
        match fact:
            case GpuLease():
                self._apply_lease(event, now)
            case Pod():
                self._apply_pod(event, fact)
            case Node() if not isinstance(event, Changed):
                self._apply_node(event, fact.name)
            case Inventory():
                self._apply_inventory(event, fact)

    def _apply_lease(self, event: Appeared[GpuLease] | Changed[GpuLease] | Vanished[GpuLease], now: float) -> None:
        seen: dict[str, float] = {}
        if not isinstance(event, Appeared):
            seen = self._forget(event.old)
        if isinstance(event, Vanished):
            return
        lease = event.new
        self._leases[lease.name] = lease
        self._first_seen[lease.name] = {
            hold.uid: seen.get(hold.uid, now) if lease.shared else now for hold in lease.holds
        }
        self._on_node.setdefault(lease.node, {})[lease.name] = None
        for hold in lease.holds:
            self._of_holder.setdefault(hold.uid, {})[lease.name] = None
        self._touch((lease.name,))

    def _forget(self, lease: GpuLease) -> dict[str, float]:
        """Take a Lease out. Returns when each of its holders was first seen."""
        del self._leases[lease.name]
        self._touched.pop(lease.name, None)
        _drop(self._on_node, lease.node, lease.name)
        for hold in lease.holds:
            _drop(self._of_holder, hold.uid, lease.name)
            if hold.uid not in self._of_holder:
                self._gone.pop(hold.uid, None)
        return self._first_seen.pop(lease.name)

    def _apply_pod(self, event: Event[Pod], pod: Pod) -> None:
        held = self._of_holder.get(pod.uid, {})
        if not isinstance(event, Vanished):
            self._pods[pod.uid] = pod
        else:
            self._pods.pop(pod.uid, None)
            if held:
                self._gone[pod.uid] = pod.key
        self._touch(held)

    def _apply_node(self, event: Event[Node], name: str) -> None:
        if isinstance(event, Vanished):
            self._nodes.discard(name)
        else:
            self._nodes.add(name)
        self._touch(self._on_node.get(name, {}))

    def _apply_inventory(self, event: Event[Inventory], inventory: Inventory) -> None:
        if isinstance(event, Vanished):
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
