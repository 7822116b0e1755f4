"""Volumes: claims, the volumes behind them, and the classes that make new ones."""

from msgspec import field

from ullage.kube.objects import KubeStruct
from ullage.kube.objects.meta import LabelSelector, ObjectMeta
from ullage.kube.objects.pod import NodeSelector, Quantities


class VolumeResources(KubeStruct, frozen=True, gc=False, kw_only=True):
    requests: Quantities = {}


class VolumeClaimSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    access_modes: tuple[str, ...] = ()
    resources: VolumeResources = field(default_factory=VolumeResources)
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str = ""


class VolumeClaimStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    phase: str = ""


class KubePersistentVolumeClaim(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VolumeClaimSpec = field(default_factory=VolumeClaimSpec)
    status: VolumeClaimStatus = field(default_factory=VolumeClaimStatus)


class ClaimReference(KubeStruct, frozen=True, gc=False, kw_only=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(KubeStruct, frozen=True, gc=False, kw_only=True):
    required: NodeSelector | None = None


class VolumeSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    access_modes: tuple[str, ...] = ()
    capacity: Quantities = {}
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str = ""
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None


class VolumeStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    phase: str = ""


class KubePersistentVolume(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VolumeSpec = field(default_factory=VolumeSpec)
    status: VolumeStatus = field(default_factory=VolumeStatus)


class TopologyLabel(KubeStruct, frozen=True, gc=False, kw_only=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(KubeStruct, frozen=True, gc=False, kw_only=True):
    match_label_expressions: tuple[TopologyLabel, ...] = ()


class KubeStorageClass(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: tuple[TopologyTerm, ...] = ()
