"""Dynamic Resource Allocation, `resource.k8s.io`: allocations of ResourceClaims, and devices of ResourceSlices.

All served versions spell these parts alike, except that the oldest has a device's attributes one level deeper.
"""

from msgspec import field

from ullage.kube.objects import KubeStruct
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import NodeSelector


class DeviceResult(KubeStruct, frozen=True, gc=False, kw_only=True):
    """One device allocated to a request of the claim."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    """True for administrative access: the device is not held, and others may be allocated it."""


class DeviceResults(KubeStruct, frozen=True, gc=False, kw_only=True):
    results: tuple[DeviceResult, ...] = ()


class Allocated(KubeStruct, frozen=True, gc=False, kw_only=True):
    devices: DeviceResults = field(default_factory=DeviceResults)
    node_selector: NodeSelector | None = None


class ResourceClaimStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    allocation: Allocated | None = None


class KubeResourceClaim(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    status: ResourceClaimStatus = field(default_factory=ResourceClaimStatus)


class DeviceAttribute(KubeStruct, frozen=True, gc=False, kw_only=True):
    string: str | None = None


Attributes = dict[str, DeviceAttribute]


class BasicDevice(KubeStruct, frozen=True, gc=False, kw_only=True):
    attributes: Attributes = {}


class SliceDevice(KubeStruct, frozen=True, gc=False, kw_only=True):
    name: str = ""
    attributes: Attributes = {}
    basic: BasicDevice | None = None
    """Place of the attributes in v1beta1."""


class DevicePool(KubeStruct, frozen=True, gc=False, kw_only=True):
    name: str = ""


class ResourceSliceSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    driver: str = ""
    pool: DevicePool = field(default_factory=DevicePool)
    devices: tuple[SliceDevice, ...] = ()


class KubeResourceSlice(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ResourceSliceSpec = field(default_factory=ResourceSliceSpec)
