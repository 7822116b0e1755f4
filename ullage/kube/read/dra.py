"""ResourceClaims and ResourceSlices: which GPUs are held, and which device is which GPU."""

from collections.abc import Iterator

from ullage.kube.objects.dra import Allocated, ResourceClaim, ResourceSlice, SliceDevice
from ullage.model.device_claim import AllocatedDevice, DeviceClaim, DeviceSlice
from ullage.model.event import ObjectKey

DRIVER = "gpu.nvidia.com"
"""Whose devices are our GPUs. Its pools are named after nodes."""

_GPU_UUID = ("parentUUID", "uuid")
"""Attributes that name the GPU: a part of one names its parent, too."""


def read_device_claim(raw: ResourceClaim) -> DeviceClaim:
    """A claim's facts. One that has not been allocated holds nothing."""
    meta, given = raw.metadata, raw.status.allocation
    devices = () if given is None else tuple(sorted(set(_devices(given))))
    return DeviceClaim(key=ObjectKey(meta.namespace, meta.name), uid=meta.uid, devices=devices)


def _devices(given: Allocated) -> list[AllocatedDevice]:
    node = _node(given)
    return [
        AllocatedDevice(node or result.pool, result.pool, result.device)
        for result in given.devices.results
        if result.driver == DRIVER and not result.admin_access
    ]


def _node(given: Allocated) -> str:
    """The one node it can be used on, where it says so by name."""
    terms = () if given.node_selector is None else given.node_selector.node_selector_terms
    named = [
        field.values[0]
        for term in terms
        for field in term.match_fields
        if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1
    ]
    return named[0] if len(terms) == 1 and len(named) == 1 else ""


def read_device_slice(raw: ResourceSlice) -> DeviceSlice:
    """A slice's facts. One of another driver says nothing."""
    ours = raw.spec.driver == DRIVER
    gpus = tuple(sorted(_gpus(raw.spec.devices))) if ours else ()
    return DeviceSlice(key=ObjectKey("", raw.metadata.name), pool=raw.spec.pool.name, gpus=gpus)


def _gpus(devices: tuple[SliceDevice, ...]) -> Iterator[tuple[str, str]]:
    for device in devices:
        attributes = device.attributes if device.basic is None else device.basic.attributes
        # A name without a domain is of the driver's own.
        said = {name.removeprefix(f"{DRIVER}/"): value.string for name, value in attributes.items()}
        uuid = next((found for name in _GPU_UUID if (found := said.get(name))), None)
        if uuid:
            yield device.name, uuid
