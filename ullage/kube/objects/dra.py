"""ResourceClaims of `resource.k8s.io`: of them, only what has been allocated. All served versions spell that alike."""

from msgspec import field

from ullage.kube.objects import KubeStruct
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import NodeSelector


class DeviceResult(KubeStruct, frozen=True, gc=False, kw_only=True):
    """One device that was given to a request of the claim."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    """It is looked after, and not held: others may have it, too."""


class DeviceResults(KubeStruct, frozen=True, gc=False, kw_only=True):
    results: tuple[DeviceResult, ...] = ()


class Allocated(KubeStruct, frozen=True, gc=False, kw_only=True):
    devices: DeviceResults = field(default_factory=DeviceResults)
    node_selector: NodeSelector | None = None


class ResourceClaimStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    allocation: Allocated | None = None


class ResourceClaim(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    status: ResourceClaimStatus = field(default_factory=ResourceClaimStatus)
