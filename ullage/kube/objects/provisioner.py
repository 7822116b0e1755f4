"""NodeProvisioner: the custom resource of a pool of GPU nodes. As in `gpu`, its definition is generated from here.

Rules between fields are in `ullage.kube.crds.provisioner_rules`.
"""

from typing import Annotated

from msgspec import field

from ullage.config.settings import MOST_NODES
from ullage.kube.crds.marks import (
    BYTES,
    DATE_TIME,
    DURATION,
    LABEL_VALUE,
    PRICE,
    QUANTITY,
    REQUIRED,
    SET,
    at_least,
    at_most_entries,
    at_most_items,
    between,
    length,
    map_by,
    one_of,
)
from ullage.kube.crds.setting_defaults import crd_default
from ullage.kube.objects import KubeStruct
from ullage.kube.objects.gpu import Conditions, Count, ObjectName
from ullage.kube.objects.meta import ObjectMeta
from ullage.model.device import MOST_DEVICES, GpuNodeKind
from ullage.model.provisioner import CapacityType, CloudFailure, ConsolidationPolicy, TaintEffect

Duration = Annotated[str, DURATION]
Timestamp = Annotated[str, DATE_TIME, REQUIRED]
Labels = Annotated[dict[str, Annotated[str, LABEL_VALUE]], at_most_entries(64)]
Quantities = Annotated[dict[str, Annotated[int | str, QUANTITY]], at_most_entries(32)]
Parameters = Annotated[dict[str, Annotated[str, length(0, 1024)]], at_most_entries(64)]
ZoneName = Annotated[str, LABEL_VALUE, length(1, 63)]
_USED_PERCENT = round(100 * crd_default("spec.consolidation.utilizationThresholdPercent"))


class TemplateTaint(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Taint of every new node."""

    key: Annotated[str, REQUIRED, length(1, 316)] = ""
    value: Annotated[str, LABEL_VALUE] = ""
    effect: Annotated[str, REQUIRED, one_of(TaintEffect)] = ""


class TemplateGpus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """GPUs of a new node, all alike."""

    model: Annotated[str, REQUIRED, length(1, 128)] = ""
    """GPU model, as GpuNodeStatus will name it."""
    count: Annotated[int, REQUIRED, between(1, MOST_DEVICES)] = 0
    memory: Annotated[int | str | None, BYTES] = None
    """Memory per GPU, such as 80Gi."""
    islands: Annotated[int, between(1, MOST_DEVICES)] = 1
    """Number of NVLink islands, all of equal size. Equal to count if no GPUs are connected."""
    bandwidth: Count = field(default=0, name="bandwidthGBps")
    """Bandwidth between GPUs of one island, in GB/s."""
    kind: Annotated[str, one_of((GpuNodeKind.LEASED, GpuNodeKind.COUNTED))] = GpuNodeKind.LEASED.value
    """Leased: the scheduler allocates exact GPUs. Counted: a device plugin chooses them."""


class NodeTemplateSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Properties of a new node. Pending pods are tried on this template before a node is bought."""

    labels: Labels = {}
    """Labels of a new node, in addition to gpu.scheduling/provisioner, which every node of the pool has."""
    taints: Annotated[tuple[TemplateTaint, ...], at_most_items(32)] = ()
    resources: Annotated[Quantities, REQUIRED] = {}
    """Allocatable resources: cpu, memory, and others such as ephemeral-storage. GPUs are set in gpus."""
    gpus: TemplateGpus
    capacity_type: Annotated[str, one_of(CapacityType)] = CapacityType.ON_DEMAND.value
    price_per_hour: Annotated[int | str | None, PRICE] = None
    """Price of one node, such as 98.32, in the same currency for all provisioners. Those without a price come last."""
    zones: Annotated[tuple[ZoneName, ...], SET, at_most_items(16)] = ()
    """Zones in which nodes may be created. Any zone, if not set."""


class ProviderReference(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Cloud provider that creates the nodes."""

    name: Annotated[str, REQUIRED, length(1, 63)] = ""
    """Name of the provider: aws, clusterapi, kwok, simulated, or one installed in addition."""
    parameters: Parameters = {}
    """Parameters of the provider, such as a launch template; see its documentation."""


class ConsolidationSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Removal of nodes that are not needed."""

    policy: Annotated[str, one_of(ConsolidationPolicy)] = ConsolidationPolicy.EMPTY_ONLY.value
    """EmptyOnly: empty nodes, by the thresholds of this spec. Drain: also nodes whose pods have a place elsewhere; the
    thresholds are floors then."""
    unneeded_time: Duration = crd_default("spec.consolidation.unneededTime")
    """Drain: time a node must have been unneeded before it is removed."""
    unready_time: Duration = crd_default("spec.consolidation.unreadyTime")
    """Drain: time a node that is not ready must have been unneeded before it is removed."""
    utilization_threshold: Annotated[int, between(0, 100)] = field(
        default=_USED_PERCENT, name="utilizationThresholdPercent"
    )
    """Drain: a node with a larger part of its GPUs in use is kept."""
    max_scale_down_parallelism: Annotated[int | None, between(1, MOST_NODES)] = None
    """Drain: most nodes being removed at once. 10, if not set."""
    max_drain_parallelism: Annotated[int | None, between(0, MOST_NODES)] = None
    """Drain: of them, nodes with pods to evict; with fewer, drains never hold up empty nodes. At most 5, if not
    set."""
    max_empty_bulk_delete: Annotated[int | None, between(1, MOST_NODES)] = None
    """Deprecated: use maxScaleDownParallelism."""


class NodeProvisionerSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A pool of equal GPU nodes."""

    provider: ProviderReference
    template: NodeTemplateSpec
    min_size: Annotated[int, between(0, MOST_NODES)] = 0
    """Minimum number of nodes."""
    max_size: Annotated[int, REQUIRED, between(1, MOST_NODES)] = 0
    """Maximum number of nodes, upcoming and tainted nodes included."""
    min_utilization: Annotated[int, between(0, 100)] = field(default=0, name="minGPUUtilizationPercent")
    """Minimum part of the pool's GPUs in use. Below it, the pool shrinks to the largest size that meets it. 0: off."""
    min_unutilized: Annotated[int, between(0, MOST_NODES)] = field(default=0, name="minUnutilizedGPUNodes")
    """Number of empty nodes kept, whatever the utilisation. Empty nodes are kept, never bought."""
    scale_down_delay: Duration = "10m"
    """Time from tainting an empty node to deleting it."""
    scale_up_batch: Duration = "10s"
    """Time the first pending pod of a burst waits for others to share new nodes with."""
    boot_deadline: Duration = "15m"
    """Time for an instance to become a node with GPUs. After it, the instance is replaced."""
    consolidation: ConsolidationSpec = field(default_factory=ConsolidationSpec)
    paused: bool = False
    """Stops the pool: nothing is bought, tainted or deleted."""
    recommend_only: bool = False
    """Decisions are written to the status only. Nothing is bought, tainted or deleted."""


class TaintedNode(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Node that is marked for deletion."""

    name: Annotated[ObjectName, REQUIRED] = ""
    deletion_time: Timestamp = ""


class LastDecisionStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Last decision on the pool."""

    action: Annotated[str, REQUIRED, length(1, 63)] = ""
    """NoAction, ReleaseInstances, Untaint, ScaleUp, TerminateInstance or TaintForDeletion."""
    count: Count = 0
    """Number of nodes the decision concerns."""
    at: Timestamp = ""
    why: Annotated[str, length(0, 4096)] = ""
    recommended: bool = False
    """True if the decision was only recommended, and not performed."""


class OpenPurchase(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Purchase of nodes whose result is not known yet. A repeated request with the same serial buys nothing more."""

    serial: Annotated[int, at_least(0)] = 0
    count: Annotated[int, at_least(1), REQUIRED] = 0
    least: Count = 0
    zone: Annotated[str, LABEL_VALUE] = ""
    since: Timestamp = ""


class AwaitedInstanceStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Instance that was created and that the cloud may not list yet."""

    id: Annotated[str, REQUIRED, length(1, 512)] = ""
    since: Timestamp = ""


class BackOffStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Back-off after failed purchases. Nothing is bought until it ends."""

    failure: Annotated[str, REQUIRED, one_of(CloudFailure)] = ""
    failures: Count = 0
    """Number of failures in a row."""
    until: Timestamp = ""
    message: Annotated[str, length(0, 4096)] = ""


class NodeProvisionerStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Current state of the pool. Written by the controller only."""

    current_size: Annotated[int | None, at_least(0)] = None
    """Number of nodes and instances, upcoming and tainted nodes included."""
    target_size: Annotated[int | None, at_least(0)] = None
    coming_size: Annotated[int | None, at_least(0)] = None
    """Number of upcoming nodes among them: instances that are no usable nodes yet."""
    utilization: Annotated[int | None, at_least(0)] = field(default=None, name="gpuUtilizationPercent")
    """GPUs requested, in percent of all GPUs of the pool, tainted nodes included."""
    unmet_pods: Annotated[int | None, at_least(0)] = None
    """Pods that no NodeProvisioner serves and this one may not buy for: in back-off, full, paused or over budget."""
    tainted_nodes: Annotated[tuple[TaintedNode, ...], map_by("name"), at_most_items(MOST_NODES)] = ()
    last_decision: LastDecisionStatus | None = None
    purchases: Count = 0
    """Number of purchases begun so far."""
    purchase: OpenPurchase | None = None
    awaited: Annotated[tuple[AwaitedInstanceStatus, ...], map_by("id"), at_most_items(MOST_NODES)] = ()
    back_off: BackOffStatus | None = None
    agent_taint: bool = False
    """True if agents were seen to taint nodes of this pool. Nothing is bought then for pods that do not tolerate it."""
    conditions: Conditions = ()
    """Ready, ScalingUp, ScalingDown, CapacityBlocked, AgentsSilent, ScaleDownThrottled."""
    observed_generation: Count = 0
    """The generation of the spec this status is about."""


class NodeProvisioner(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A pool of GPU nodes that grows and shrinks with demand. Its nodes carry its name in the label
    gpu.scheduling/provisioner."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeProvisionerSpec
    status: NodeProvisionerStatus = field(default_factory=NodeProvisionerStatus)
