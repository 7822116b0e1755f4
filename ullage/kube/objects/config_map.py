"""ConfigMaps."""

from msgspec import field

from ullage.kube.objects import KubeStruct
from ullage.kube.objects.meta import ObjectMeta


class KubeConfigMap(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] = {}
