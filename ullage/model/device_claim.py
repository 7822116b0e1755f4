"""Devices that Kubernetes' own device allocation (DRA) gave away, as a ResourceClaim says it."""

import msgspec

from ullage.model.event import ObjectKey


class AllocatedDevice(msgspec.Struct, frozen=True, gc=False, order=True):
    """One device of a node, as its driver names it: `gpu-3`."""

    node: str
    name: str


class DeviceClaim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one ResourceClaim: which GPUs it holds, if it has been allocated any."""

    key: ObjectKey
    uid: str
    devices: tuple[AllocatedDevice, ...] = ()
    """Sorted. Those it only watches over (admin access) are not held."""
