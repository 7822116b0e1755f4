"""GPUs that Leases say are held though no pod we know of accounts for it: another scheduler's, or a bind under way.

They are put into the placements as pods that hold a device and nothing else, so that nobody is offered it. Pure.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from ullage.model.device import MILLI_GPU
from ullage.model.event import Appeared, Changed, Event, ObjectKey, Synced, Vanished
from ullage.model.lease import GpuLease
from ullage.model.pod import Phase, Pod
from ullage.model.shape import Shape, interned
from ullage.state.placements import Placements

NOWHERE = "\n"
"""A namespace no pod can be in."""

_NOTHING = interned(Shape())


class ForeignHolds:
    """Keeps the placements in step with Leases."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self._leases: dict[str, GpuLease] = {}
        self._of_holder: dict[str, dict[str, None]] = {}
        self._keys: dict[str, ObjectKey] = {}
        self._believed: dict[str, float] = {}
        """Leases we ran into before we heard of them, and until when that counts."""

    def __len__(self) -> int:
        """Leases there are."""
        return len(self._leases)

    def apply(self, event: Event[GpuLease]) -> None:
        """A Lease was written or is gone; or all there are have been heard of."""
        match event:
            case Synced():
                self._forget_beliefs(list(self._believed))
            case Vanished(old=old):
                self._forget(old)
            case Changed(old=old, new=new):
                self._forget(old)
                self._learn(new)
            case Appeared(new=new):
                self._learn(new)

    def taken(self, node: str, device: int, name: str, *, until: float) -> None:
        """Somebody holds this device whose Lease has not been heard of: believed until it is, or until this moment.

        It may be gone again by the time we are told: then nothing more is heard of it.
        """
        if name not in self._leases:
            self._believed[name] = until
            self._hold(name, node, device, MILLI_GPU)

    def next_doubt(self) -> float | None:
        """When something is no longer believed, if anything is."""
        return min(self._believed.values(), default=None)

    def doubt(self, *, now: float) -> bool:
        """Let go of what nothing was heard of. Whether there was any."""
        return self._forget_beliefs([name for name, until in self._believed.items() if until <= now])

    def reconsider(self, uid: str) -> None:
        """The room intended for this pod was given back: what it still holds is nobody else's yet."""
        for name in self._of_holder.get(uid, ()):
            self._judge(self._leases[name])

    def pod_heard(self, pod: Pod, *, gone: bool) -> None:
        """What a pod accounts for may have changed."""
        if gone:
            self._keys.pop(pod.uid, None)
        else:
            self._keys[pod.uid] = pod.key
        self.reconsider(pod.uid)

    def _forget_beliefs(self, names: list[str]) -> bool:
        """A Lease that came and went while nobody listened is never heard of."""
        for name in names:
            del self._believed[name]
            self._placements.remove(ObjectKey(NOWHERE, name))
        return bool(names)

    @contextmanager
    def lifted(self, uids: Iterable[str]) -> Iterator[None]:
        """Inside, these pods may be offered what Leases say is theirs: of a bind that was begun and never ended."""
        theirs = frozenset(uids)
        names = sorted({name for uid in theirs for name in self._of_holder.get(uid, ())})
        for name in names:
            self._judge(self._leases[name], theirs)
        try:
            yield
        finally:
            for name in names:
                self._judge(self._leases[name])

    def _learn(self, lease: GpuLease) -> None:
        self._leases[lease.name] = lease
        self._believed.pop(lease.name, None)
        for hold in lease.holds:
            self._of_holder.setdefault(hold.uid, {})[lease.name] = None
        self._judge(lease)

    def _forget(self, lease: GpuLease) -> None:
        self._leases.pop(lease.name, None)
        for hold in lease.holds:
            names = self._of_holder.get(hold.uid, {})
            names.pop(lease.name, None)
            if not names:
                self._of_holder.pop(hold.uid, None)
        self._placements.remove(ObjectKey(NOWHERE, lease.name))

    def _judge(self, lease: GpuLease, apart_from: Collection[str] = ()) -> None:
        """How much of the device nobody we know of accounts for."""
        unknown = [hold for hold in lease.holds if hold.uid not in apart_from and not self._accounted(hold.uid, lease)]
        if unknown:
            milli = min(sum(hold.milli for hold in unknown), MILLI_GPU)
            soon_free = all(self._has_no_use_for_it(hold.uid) for hold in unknown)
            self._hold(lease.name, lease.node, lease.device, milli, soon_free=soon_free)
        else:
            self._placements.remove(ObjectKey(NOWHERE, lease.name))

    def _has_no_use_for_it(self, uid: str) -> bool:
        """Its pod is gone, over, or bound to something else: who wants the device need only wait for the sweeper."""
        key = self._keys.get(uid)
        pod = None if key is None else self._placements.state.pods.get(key)
        return pod is None or bool(pod.node) or pod.phase.over

    def _accounted(self, uid: str, lease: GpuLease) -> bool:
        key = self._keys.get(uid)
        pod = None if key is None else self._placements.pods.get(key)
        return pod is not None and pod.node == lease.node and lease.device in pod.gpu_ids

    def _hold(self, name: str, node: str, device: int, milli: int, *, soon_free: bool = False) -> None:
        holder = Pod(
            key=ObjectKey(NOWHERE, name),
            uid=name,
            created=0.0,
            node=node,
            phase=Phase.RUNNING,
            deleting=soon_free,
            gated=False,
            scheduler="",
            priority=0,
            labels={},
            shape=_NOTHING,
            owner=None,
        )
        self._placements.place(holder, node, (device,), milli)
