"""Nodes: allocatable resources, taints and conditions."""

from msgspec import field

from ullage.kube.objects import KubeStruct
from ullage.kube.objects.meta import Condition, ObjectMeta
from ullage.kube.objects.pod import Quantities


class KubeTaint(KubeStruct, frozen=True, gc=False, kw_only=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    unschedulable: bool = False
    taints: tuple[KubeTaint, ...] = ()
    provider_id: str = field(default="", name="providerID")


class ContainerImage(KubeStruct, frozen=True, gc=False, kw_only=True):
    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    capacity: Quantities = {}
    allocatable: Quantities = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()


class KubeNode(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)
