"""Secrets: named byte strings."""

from msgspec import field

from ullage.kube.objects import KubeStruct
from ullage.kube.objects.meta import ObjectMeta


class Secret(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    type: str = ""
    data: dict[str, bytes] = {}
    """Base64 on the wire, as bytes are in JSON."""
