"""Pods: the fields that scheduling, draining and accounting need."""

from msgspec import field

from ullage.kube.objects import KubeStruct
from ullage.kube.objects.meta import Condition, Labels, LabelSelector, ObjectMeta

Quantities = dict[str, str]
"""Resource name to quantity, as written: `{"cpu": "500m", "nvidia.com/gpu": "2"}`. Parsed by `model.quantity`."""


class ResourceRequirements(KubeStruct, frozen=True, gc=False, kw_only=True):
    requests: Quantities = {}
    limits: Quantities = {}


class ContainerPort(KubeStruct, frozen=True, gc=False, kw_only=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(KubeStruct, frozen=True, gc=False, kw_only=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class KubeToleration(KubeStruct, frozen=True, gc=False, kw_only=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorRequirement(KubeStruct, frozen=True, gc=False, kw_only=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(KubeStruct, frozen=True, gc=False, kw_only=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(KubeStruct, frozen=True, gc=False, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(KubeStruct, frozen=True, gc=False, kw_only=True):
    weight: int = 0
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)


class NodeAffinity(KubeStruct, frozen=True, gc=False, kw_only=True):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(KubeStruct, frozen=True, gc=False, kw_only=True):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(KubeStruct, frozen=True, gc=False, kw_only=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Attraction or repulsion between pods: the two have one shape."""

    required: tuple[PodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(KubeStruct, frozen=True, gc=False, kw_only=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(KubeStruct, frozen=True, gc=False, kw_only=True):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class ClaimVolume(KubeStruct, frozen=True, gc=False, kw_only=True):
    claim_name: str = ""
    read_only: bool = False


class ImageVolume(KubeStruct, frozen=True, gc=False, kw_only=True):
    reference: str = ""


class PodVolume(KubeStruct, frozen=True, gc=False, kw_only=True):
    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    image: ImageVolume | None = None
    ephemeral: dict[str, object] | None = None
    empty_dir: dict[str, object] | None = None
    host_path: dict[str, object] | None = None


class SchedulingGate(KubeStruct, frozen=True, gc=False, kw_only=True):
    name: str = ""


class PodResourceClaim(KubeStruct, frozen=True, gc=False, kw_only=True):
    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: Quantities = {}
    node_selector: Labels = {}
    affinity: Affinity | None = None
    tolerations: tuple[KubeToleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    host_network: bool = False


class ContainerStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Status of a container that may be resized in place: allocated resources, and resources in effect."""

    name: str = ""
    allocated_resources: Quantities = {}
    resources: ResourceRequirements | None = None


class PodStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    reason: str = ""
    message: str = ""


class KubePod(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)
