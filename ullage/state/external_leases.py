"""GPUs that Leases hold for pods the snapshot does not account for: another scheduler's, or a bind under way.

The snapshot has them as pods that hold a device and nothing else, so that no pod is placed on them. Part of the
snapshot, which keeps it up to date.
"""

import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from ullage.model.device import MILLI_GPU
from ullage.model.fact_event import ObjectKey
from ullage.model.lease import GpuLease, LeaseHold
from ullage.model.pod import Phase, Pod
from ullage.model.shape import Shape, interned
from ullage.model.units import Instant, Milli
from ullage.state.cluster import ClusterState
from ullage.state.forking import forked
from ullage.state.shared_rows import SharedRows

NOWHERE = "\n"
"""A namespace no pod can be in."""

_NOTHING = interned(Shape())


class _Snapshot(Protocol):
    """Part of ClusterSnapshot that is needed here."""

    @property
    def state(self) -> ClusterState: ...

    @property
    def pods(self) -> Mapping[ObjectKey, Pod]: ...

    def assume(self, pod: Pod, node: str, gpu_ids: tuple[int, ...], gpu_share: Milli) -> None: ...

    def forget(self, key: ObjectKey) -> None: ...


class ExternalLeases:
    """ExternalLeases: holders in the snapshot for what Leases give to pods it does not account for."""

    def __init__(self, snapshot: _Snapshot) -> None:
        self._snapshot = snapshot
        self._leases = snapshot.state.leases
        self._of_holder: SharedRows[str, dict[str, None]] = SharedRows(dict)
        self._keys: dict[str, ObjectKey] = {}
        self._believed: dict[str, Instant] = {}
        """Leases that a write of ours ran into before the watch delivered them, each assumed until this instant."""
        self._left: dict[str, None] = {}
        """Leases of which nothing but parts of pods that are gone is unaccounted for."""
        for pod in snapshot.state.pods.values():
            self._keys[pod.uid] = pod.key
        for lease in self._leases.values():
            self.renew(None, lease)

    def fork_for(self, snapshot: _Snapshot) -> "ExternalLeases":
        """Return a copy for the forked snapshot, which is freed without the garbage collector once it is dropped."""
        twin = object.__new__(ExternalLeases)
        twin._snapshot, twin._leases = weakref.proxy(snapshot), snapshot.state.leases
        for name in vars(self).keys() - vars(twin).keys():
            setattr(twin, name, forked(getattr(self, name)))
        return twin

    @property
    def left(self) -> frozenset[str]:
        """Uids in Leases of pods that are gone, finished or elsewhere. LeaseGarbageCollector frees them."""
        leases = [self._leases[name] for name in self._left]
        return frozenset(hold.uid for one in leases for hold in one.holds if not self._accounted(hold, one))

    def holds(self, uid: str) -> bool:
        """True if a Lease names this pod."""
        return uid in self._of_holder

    def __len__(self) -> int:
        """Leases there are."""
        return len(self._leases)

    def renew(self, old: GpuLease | None, new: GpuLease | None) -> None:
        """Take in a change of a Lease that the cluster state has applied."""
        if old is not None:
            self._forget(old)
        if new is not None:
            self._learn(new)

    def apply_synced(self) -> None:
        """Take in the end of a first list: Leases that were only assumed are not assumed any longer."""
        self._forget_beliefs(list(self._believed))

    def taken(self, node: str, device: int, name: str, *, until: Instant) -> None:
        """Assume that a Lease holds this device, until the watch delivers the Lease or until this instant.

        The Lease may be gone before the watch delivers it: then no event of it ever comes.
        """
        if name not in self._leases:
            self._believed[name] = until
            self._hold(name, node, device, MILLI_GPU)

    def next_doubt(self) -> Instant | None:
        """Return the earliest instant at which an unobserved Lease is no longer assumed; None if none is assumed."""
        return min(self._believed.values(), default=None)

    def doubt(self, *, now: Instant) -> bool:
        """Drop assumed Leases whose time is over. True if there were any."""
        return self._forget_beliefs([name for name, until in self._believed.items() if until <= now])

    def reconsider(self, uid: str) -> None:
        """Judge the pod's Leases again after its placement was undone: GPUs it still holds are not free yet."""
        for name in self._of_holder.get(uid) or ():
            self._recheck(self._leases[name])

    def observe_pod(self, pod: Pod, *, gone: bool) -> None:
        """Take in a change of a pod: its Leases are judged again."""
        if gone:
            self._keys.pop(pod.uid, None)
        else:
            self._keys[pod.uid] = pod.key
        self.reconsider(pod.uid)

    def _forget_beliefs(self, names: list[str]) -> bool:
        """Drop assumed Leases. A Lease that came and went between two watches is never observed."""
        for name in names:
            del self._believed[name]
            self._snapshot.forget(ObjectKey(NOWHERE, name))
        return bool(names)

    @contextmanager
    def lifted(self, uids: Iterable[str]) -> Iterator[None]:
        """Inside, these pods may be offered what Leases say is theirs: of a bind that was begun and never ended."""
        theirs = frozenset(uids)
        names = sorted({name for uid in theirs for name in self._of_holder.get(uid) or ()})
        for name in names:
            self._recheck(self._leases[name], theirs)
        try:
            yield
        finally:
            for name in names:
                self._recheck(self._leases[name])

    def _learn(self, lease: GpuLease) -> None:
        self._believed.pop(lease.name, None)
        for hold in lease.holds:
            self._of_holder.own(hold.uid)[lease.name] = None
        self._recheck(lease)

    def _forget(self, lease: GpuLease) -> None:
        self._left.pop(lease.name, None)
        for hold in lease.holds:
            names = self._of_holder.own(hold.uid)
            names.pop(lease.name, None)
            if not names:
                self._of_holder.drop(hold.uid)
        self._snapshot.forget(ObjectKey(NOWHERE, lease.name))

    def _recheck(self, lease: GpuLease, apart_from: Collection[str] = ()) -> None:
        """Hold in the snapshot the part of the device that no known pod accounts for."""
        unknown = [hold for hold in lease.holds if hold.uid not in apart_from and not self._accounted(hold, lease)]
        if not apart_from:
            self._left.pop(lease.name, None)
        if unknown:
            milli = min(sum(hold.milli for hold in unknown), MILLI_GPU)
            soon_free = all(self._has_no_use_for_it(hold.uid) for hold in unknown)
            if soon_free:
                self._left[lease.name] = None
            instances = tuple(hold.instance for hold in unknown if hold.instance)
            self._hold(lease.name, lease.node, lease.device, Milli(milli), soon_free=soon_free, instances=instances)
        elif not lease.holds:
            # A Lease without a holder still keeps all pods off, until LeaseGarbageCollector has deleted it.
            self._hold(lease.name, lease.node, lease.device, MILLI_GPU, soon_free=True)
        else:
            self._snapshot.forget(ObjectKey(NOWHERE, lease.name))

    def _has_no_use_for_it(self, uid: str) -> bool:
        """True if the pod is gone, finished or bound to something else: LeaseGarbageCollector will free the device."""
        key = self._keys.get(uid)
        pod = None if key is None else self._snapshot.state.pods.get(key)
        return pod is None or bool(pod.node) or pod.phase.over

    def _accounted(self, hold: LeaseHold, lease: GpuLease) -> bool:
        key = self._keys.get(hold.uid)
        pod = None if key is None else self._snapshot.pods.get(key)
        if pod is None or pod.node != lease.node or lease.device not in pod.gpu_ids:
            return False
        return hold.instance in pod.gpu_instances if hold.instance else not pod.gpu_instances

    def _hold(
        self,
        name: str,
        node: str,
        device: int,
        milli: Milli,
        *,
        soon_free: bool = False,
        instances: tuple[str, ...] = (),
    ) -> None:
        holder = Pod(
            key=ObjectKey(NOWHERE, name),
            uid=name,
            created=Instant(0.0),
            node=node,
            phase=Phase.RUNNING,
            deleting=soon_free,
            gated=False,
            scheduler="",
            priority=0,
            labels={},
            shape=_NOTHING,
            owner=None,
            gpu_instances=instances,
        )
        self._snapshot.assume(holder, node, (device,), milli)
