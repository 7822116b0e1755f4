"""GPUs that Leases say are held though no pod we know of accounts for it: another scheduler's, or a bind under way.

They are put into the placements as pods that hold a device and nothing else, so that nobody is offered it. Pure.
"""

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

    def apply(self, event: Event[GpuLease]) -> None:
        """A Lease was written or is gone."""
        match event:
            case Synced():
                return
            case Vanished(old=old):
                self._forget(old)
            case Changed(old=old, new=new):
                self._forget(old)
                self._learn(new)
            case Appeared(new=new):
                self._learn(new)

    def taken(self, node: str, device: int, name: str) -> None:
        """Somebody holds this device whose Lease has not been heard of: believed until its Lease is."""
        if name not in self._leases:
            self._hold(name, node, device, MILLI_GPU)

    def pod_heard(self, pod: Pod, *, gone: bool) -> None:
        """What a pod accounts for may have changed."""
        if gone:
            self._keys.pop(pod.uid, None)
        else:
            self._keys[pod.uid] = pod.key
        for name in list(self._of_holder.get(pod.uid, ())):
            self._judge(self._leases[name])

    def _learn(self, lease: GpuLease) -> None:
        self._leases[lease.name] = lease
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

    def _judge(self, lease: GpuLease) -> None:
        """How much of the device nobody we know of accounts for."""
        unknown = sum(hold.milli for hold in lease.holds if not self._accounted(hold.uid, lease))
        if unknown:
            self._hold(lease.name, lease.node, lease.device, min(unknown, MILLI_GPU))
        else:
            self._placements.remove(ObjectKey(NOWHERE, lease.name))

    def _accounted(self, uid: str, lease: GpuLease) -> bool:
        key = self._keys.get(uid)
        pod = None if key is None else self._placements.pods.get(key)
        return pod is not None and pod.node == lease.node and lease.device in pod.gpu_ids

    def _hold(self, name: str, node: str, device: int, milli: int) -> None:
        holder = Pod(
            key=ObjectKey(NOWHERE, name),
            uid=name,
            created=0.0,
            node=node,
            phase=Phase.RUNNING,
            deleting=False,
            gated=False,
            scheduler="",
            priority=0,
            labels={},
            shape=_NOTHING,
            owner=None,
        )
        self._placements.place(holder, node, (device,), milli)
