"""Bound pods whose GPUs no Lease gives them: the Lease was deleted, or the pod is older than its Lease's rules.

Built from events alone. Pods and Leases come by different watches, so a pod counts only after SETTLED_AFTER seconds
without its Lease. Pure: time is an argument.
"""

from collections.abc import Iterable
from typing import Any

from ullage.model.allocation import lease_name
from ullage.model.fact_event import Deleted, FactEvent, Synced
from ullage.model.lease import GpuLease
from ullage.model.pod import Pod
from ullage.model.units import Instant, Seconds

SETTLED_AFTER = Seconds(5.0)
"""Seconds a pod must lack a Lease before that is believed."""


class UnleasedPods:
    """UnleasedPods: bound pods that lack a Lease, with the instant each is to be looked at."""

    def __init__(self) -> None:
        self.synced: set[str] = set()
        """Sources whose first list is complete."""
        self._pods: dict[str, Pod] = {}
        """Bound pods that name GPUs and are not over, by uid."""
        self._leases: dict[str, GpuLease] = {}
        self._due: dict[str, Instant] = {}
        """Instant at which to look at a pod that lacks a Lease, by uid."""

    def apply(self, event: FactEvent[Any], *, now: Instant) -> None:
        """Take in an event of any source; what is about neither pods nor Leases is passed over."""
        if isinstance(event, Synced):
            self.synced.add(event.source)
            return
        fact, gone = (event.old, True) if isinstance(event, Deleted) else (event.new, False)
        if isinstance(fact, Pod):
            self._apply_pod(fact, now, gone=gone)
        elif isinstance(fact, GpuLease):
            before = self._leases.pop(fact.name, None)
            if not gone:
                self._leases[fact.name] = fact
            named = {hold.uid: None for one in (before, fact) if one is not None for hold in one.holds}
            self._recheck((uid for uid in named if uid in self._pods), now)

    def __len__(self) -> int:
        """Pods that lack a Lease, as last observed."""
        return len(self._due)

    def next_due(self) -> Instant | None:
        """Return the next instant at which a pod is due; None if no pod lacks a Lease."""
        return min(self._due.values(), default=None)

    def take_due(self, *, now: Instant) -> list[Pod]:
        """Pods to look at now. Each comes again should it still lack something by then."""
        due = [uid for uid, at in self._due.items() if at <= now]
        self.postpone(due, until=Instant(now + SETTLED_AFTER))
        return [self._pods[uid] for uid in due]

    def postpone(self, uids: Iterable[str], *, until: Instant) -> None:
        """Do not return these pods before this instant, if they still lack a Lease then."""
        for uid in uids:
            if uid in self._due:
                self._due[uid] = until

    def _apply_pod(self, pod: Pod, now: Instant, *, gone: bool) -> None:
        if gone or not pod.holds_room or not pod.gpu_ids:
            self._pods.pop(pod.uid, None)
            self._due.pop(pod.uid, None)
        else:
            self._pods[pod.uid] = pod
            self._recheck((pod.uid,), now)

    def _recheck(self, uids: Iterable[str], now: Instant) -> None:
        for uid in uids:
            if self._lacks(self._pods[uid]):
                self._due.setdefault(uid, Instant(now + SETTLED_AFTER))
            else:
                self._due.pop(uid, None)

    def _lacks(self, pod: Pod) -> bool:
        held: set[str] = set()
        for device in pod.gpu_ids:
            lease = self._leases.get(lease_name(pod.node, device))
            mine = [] if lease is None else [hold for hold in lease.holds if hold.uid == pod.uid]
            if not mine:
                return True
            held |= {hold.instance for hold in mine}
        return not held.issuperset(pod.gpu_instances)
