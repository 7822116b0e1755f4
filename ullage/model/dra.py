"""Dynamic Resource Allocation (DRA): devices a ResourceClaim holds, and the GPU each device is."""

import msgspec

from ullage.model.fact_event import ObjectKey


class AllocatedDevice(msgspec.Struct, frozen=True, gc=False, order=True):
    """One allocated device. Its name is unique in its pool only."""

    node: str
    pool: str
    name: str


class ResourceClaim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one ResourceClaim: which GPUs, or parts of GPUs, it holds, if it has been allocated any."""

    key: ObjectKey
    uid: str
    devices: tuple[AllocatedDevice, ...] = ()
    """Sorted. Devices with admin access are not held and not listed."""
    withheld: tuple[AllocatedDevice, ...] = ()
    """Sorted. Devices of a claim of ours, whose GPUs Leases count as held."""
    deleting: bool = False
    """A claim of ours that is being deleted, and kept by our finalizer."""


class ResourceSlice(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one ResourceSlice: devices of a pool as the DRA driver publishes them."""

    key: ObjectKey
    pool: str
    gpus: tuple[tuple[str, str], ...] = ()
    """Names of devices, each with the UUID of the GPU it is, or is a part of. Sorted."""
    parts: tuple[str, ...] = ()
    """Names of devices that are parts of a GPU. Sorted."""


class WithheldGpu(msgspec.Struct, frozen=True, gc=False):
    """Leased GPU, with the names by which kube-scheduler could allocate it too."""

    device: int
    names: tuple[tuple[str, str], ...]
    """Pool and device: of the GPU itself, or of its parts where only those are published. Sorted."""
