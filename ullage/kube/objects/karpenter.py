"""Karpenter's NodePools and NodeClaims, and Events: the fields that smart pods depend on."""

from typing import Any

from msgspec import field

from ullage.kube.objects import KubeStruct
from ullage.kube.objects.meta import Condition, Labels, ObjectMeta
from ullage.kube.objects.node import KubeTaint
from ullage.kube.objects.pod import Quantities


class NodeClaimRequirement(KubeStruct, frozen=True, gc=False, kw_only=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeClaimResources(KubeStruct, frozen=True, gc=False, kw_only=True):
    requests: Quantities = {}


class KubeNodeClaimSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    requirements: tuple[NodeClaimRequirement, ...] = ()
    resources: NodeClaimResources = field(default_factory=NodeClaimResources)
    taints: tuple[KubeTaint, ...] = ()
    startup_taints: tuple[KubeTaint, ...] = ()


class KubeNodeClaimStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    node_name: str = ""
    provider_id: str = field(default="", name="providerID")
    capacity: Quantities = {}
    allocatable: Quantities = {}
    conditions: tuple[Condition, ...] = ()


class KubeNodeClaim(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: KubeNodeClaimSpec = field(default_factory=KubeNodeClaimSpec)
    status: KubeNodeClaimStatus = field(default_factory=KubeNodeClaimStatus)


class NodeClaimTemplateMeta(KubeStruct, frozen=True, gc=False, kw_only=True):
    labels: Labels = {}
    annotations: Labels = {}


class NodeClaimTemplate(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: NodeClaimTemplateMeta = field(default_factory=NodeClaimTemplateMeta)
    spec: KubeNodeClaimSpec = field(default_factory=KubeNodeClaimSpec)


class KubeNodePoolSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    template: NodeClaimTemplate = field(default_factory=NodeClaimTemplate)
    limits: dict[str, Any] = {}


class KubeNodePoolStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    resources: dict[str, Any] = {}
    conditions: tuple[Condition, ...] = ()


class KubeNodePool(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: KubeNodePoolSpec = field(default_factory=KubeNodePoolSpec)
    status: KubeNodePoolStatus = field(default_factory=KubeNodePoolStatus)


class EventRegarding(KubeStruct, frozen=True, gc=False, kw_only=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSource(KubeStruct, frozen=True, gc=False, kw_only=True):
    component: str = ""


class EventSeriesTime(KubeStruct, frozen=True, gc=False, kw_only=True):
    last_observed_time: str | None = None


class KubeEvent(KubeStruct, frozen=True, gc=False, kw_only=True):
    """An Event of any writer; those of client-go's first recorder have their times in the deprecated fields."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    regarding: EventRegarding = field(default_factory=EventRegarding)
    reason: str = ""
    note: str = ""
    reporting_controller: str = ""
    deprecated_source: EventSource = field(default_factory=EventSource)
    event_time: str | None = None
    series: EventSeriesTime | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_first_timestamp: str | None = None
