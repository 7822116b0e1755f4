"""ResourceClaims and ResourceSlices: GPUs held, and the GPU of each device."""

from collections.abc import Iterator

from ullage.kube.objects.dra import Allocated, KubeResourceClaim, KubeResourceSlice, SliceDevice
from ullage.model.dra import AllocatedDevice, ResourceClaim, ResourceSlice
from ullage.model.fact_event import ObjectKey
from ullage.model.lease import LEASE_NAMESPACE

DRIVER = "gpu.nvidia.com"
"""DRA driver whose devices are our GPUs. Its pools are named after nodes."""

_PARENT_UUID = "parentUUID"
_GPU_UUID = (_PARENT_UUID, "uuid")
"""Attributes that name the GPU: a part of one names its parent, too."""

RESERVATION = "gpu.scheduling/reservation"
"""Label of a ResourceClaim of ours, beside the Leases: it withholds a leased GPU from kube-scheduler."""

RESERVATION_FINALIZER = "gpu.scheduling/lease-protection"
"""Finalizer of such a ResourceClaim: who deletes it does not open the GPU while its Lease stands."""


def read_device_claim(raw: KubeResourceClaim, *, lease_namespace: str = LEASE_NAMESPACE) -> ResourceClaim:
    """Read a ResourceClaim's facts. A claim without allocation holds no device. Nor do ours: Leases count theirs.

    Our claims are recognised by namespace and label: any user could write a label alone.
    """
    meta, given = raw.metadata, raw.status.allocation
    ours = meta.namespace == lease_namespace and RESERVATION in meta.labels
    devices = () if given is None else tuple(sorted(set(allocated_devices(given))))
    held, withheld = ((), devices) if ours else (devices, ())
    return ResourceClaim(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        devices=held,
        withheld=withheld,
        deleting=ours and meta.deletion_timestamp is not None,
    )


def allocated_devices(given: Allocated) -> list[AllocatedDevice]:
    """GPUs, or parts of them, that were given away."""
    node = _node(given)
    return [
        AllocatedDevice(node or result.pool, result.pool, result.device)
        for result in given.devices.results
        if result.driver == DRIVER and not result.admin_access
    ]


def _node(given: Allocated) -> str:
    """Name of the single node on which the allocation can be used, where its node selector names one; else empty."""
    terms = () if given.node_selector is None else given.node_selector.node_selector_terms
    named = [
        field.values[0]
        for term in terms
        for field in term.match_fields
        if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1
    ]
    return named[0] if len(terms) == 1 and len(named) == 1 else ""


def read_device_slice(raw: KubeResourceSlice) -> ResourceSlice:
    """Read a ResourceSlice's facts. A slice of another driver has no devices."""
    ours = raw.spec.driver == DRIVER
    gpus = tuple(sorted(_gpus(raw.spec.devices))) if ours else ()
    parts = tuple(sorted(one.name for one in raw.spec.devices if _said(one).get(_PARENT_UUID))) if ours else ()
    return ResourceSlice(key=ObjectKey("", raw.metadata.name), pool=raw.spec.pool.name, gpus=gpus, parts=parts)


def _gpus(devices: tuple[SliceDevice, ...]) -> Iterator[tuple[str, str]]:
    for device in devices:
        said = _said(device)
        uuid = next((found for name in _GPU_UUID if (found := said.get(name))), None)
        if uuid:
            yield device.name, uuid


def _said(device: SliceDevice) -> dict[str, str | None]:
    attributes = device.attributes if device.basic is None else device.basic.attributes
    # A name without a domain is of the driver's own.
    return {name.removeprefix(f"{DRIVER}/"): value.string for name, value in attributes.items()}
