"""Readers: API objects to facts. Only the readers know Kubernetes' field names and formats.

What cannot be read raises `Unreadable` with the object's name and the field, so that one bad object is told apart from
a bad server. Nothing is decided here.
"""

from ullage.kube.read.cluster import read_budget, read_namespace, read_node
from ullage.kube.read.dra import read_device_claim, read_device_slice
from ullage.kube.read.pod import read_pod
from ullage.kube.read.requests import pod_requests
from ullage.kube.read.selectors import read_selector
from ullage.kube.read.storage import read_storage_class, read_volume, read_volume_claim

__all__ = [
    "pod_requests",
    "read_budget",
    "read_device_claim",
    "read_device_slice",
    "read_namespace",
    "read_node",
    "read_pod",
    "read_selector",
    "read_storage_class",
    "read_volume",
    "read_volume_claim",
]
