"""Restore Leases of a bound pod after they were deleted. A GPU leased to another pod meanwhile stays with that pod."""

from dataclasses import dataclass

from ullage.act.device_reservations import DeviceReservations
from ullage.act.lease_release import LeaseReleaser
from ullage.act.leases import DeviceTaken, HeldLease, LeaseClient, LeaseHolder, LeaseRequest
from ullage.kube.client.api import KubeApi
from ullage.model.allocation import lease_name
from ullage.model.device import MOST_DEVICES
from ullage.model.dra import WithheldGpu
from ullage.model.lease import HolderPod
from ullage.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Restored:
    """The pod's GPUs are leased to it. `devices` are those whose Lease was missing."""

    pod: Pod
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NotRestored:
    """A GPU of the pod is leased to another pod: two pods have it in their allocation."""

    pod: Pod
    device: int
    by: str


class LeaseRestorer:
    """Reads the pod and each Lease afresh. Raises ApiError where the API could not be reached."""

    def __init__(self, api: KubeApi, book: LeaseClient) -> None:
        self._book = book
        self._releaser = LeaseReleaser(api, book.namespace)
        self._reservations = DeviceReservations(api, book.namespace)

    async def perform(self, pod: Pod, withheld: tuple[WithheldGpu, ...] = ()) -> Restored | NotRestored:
        """Take missing Leases. None for a pod that is gone, replaced, finished, not bound or without GPUs."""
        found = await self._releaser.pod(pod.key)
        if found is None or found.uid != pod.uid or not found.node or found.over or not found.devices:
            return Restored(pod, ())
        if found.instances and len(found.instances) != len(found.devices):
            return Restored(pod, ())  # MIG instances cannot be matched to GPUs
        want = LeaseRequest(found.node, found.devices, pod.gpu_share, found.instances)
        taken: list[HeldLease] = []
        for device in want.leases:
            if device < MOST_DEVICES and not await self._is_held(found, want, device):
                got = await self._book.take(LeaseHolder(pod.key, pod.uid), want, device)
                if isinstance(got, DeviceTaken):
                    return NotRestored(pod, device, got.by)
                taken.append(got)
        if taken and withheld:
            await self._reservations.withhold(found.node, withheld, taken)
        return Restored(pod, tuple(one.device for one in taken))

    async def _is_held(self, pod: HolderPod, want: LeaseRequest, device: int) -> bool:
        lease = await self._releaser.lease(lease_name(want.node, device))
        held = set() if lease is None else {hold.instance for hold in lease.holds if hold.uid == pod.uid}
        wanted = {hold.instance for hold in want.parts(pod.uid, device)} or {""}
        return wanted <= held
