"""Kubernetes' own device allocation (DRA): which devices a ResourceClaim holds, and which GPU each device is."""

import msgspec

from ullage.model.event import ObjectKey


class AllocatedDevice(msgspec.Struct, frozen=True, gc=False, order=True):
    """One device that was given away. Its name tells it from others of its pool, and nothing else."""

    node: str
    pool: str
    name: str


class DeviceClaim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one ResourceClaim: which GPUs, or parts of GPUs, it holds, if it has been allocated any."""

    key: ObjectKey
    uid: str
    devices: tuple[AllocatedDevice, ...] = ()
    """Sorted. Those it only watches over (admin access) are not held."""


class DeviceSlice(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one ResourceSlice: what its driver says of the devices of a pool."""

    key: ObjectKey
    pool: str
    gpus: tuple[tuple[str, str], ...] = ()
    """Names of devices, each with the UUID of the GPU it is, or is a part of. Sorted."""
