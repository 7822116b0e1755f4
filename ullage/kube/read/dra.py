"""ResourceClaims: which GPUs they hold."""

from ullage.kube.objects.dra import Allocated, ResourceClaim
from ullage.model.device_claim import AllocatedDevice, DeviceClaim
from ullage.model.event import ObjectKey

DRIVER = "gpu.nvidia.com"
"""Whose devices are GPUs of ours. A pool of its devices is named after its node."""


def read_device_claim(raw: ResourceClaim) -> DeviceClaim:
    """A claim's facts. One that has not been allocated holds nothing."""
    meta, given = raw.metadata, raw.status.allocation
    devices = () if given is None else tuple(sorted(set(_devices(given))))
    return DeviceClaim(key=ObjectKey(meta.namespace, meta.name), uid=meta.uid, devices=devices)


def _devices(given: Allocated) -> list[AllocatedDevice]:
    node = _node(given)
    return [
        AllocatedDevice(node or result.pool, result.device)
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
