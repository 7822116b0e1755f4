"""Our kind for pools of GPU nodes: NodeProvisioner. As in `gpu`, the definition is made from these structs.

Laws between fields are in `ullage.kube.crds.provisioner_rules`.
"""

from typing import Annotated

from msgspec import field

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
from ullage.kube.objects import KubeStruct
from ullage.kube.objects.gpu import Conditions, Count, ObjectName
from ullage.kube.objects.meta import ObjectMeta
from ullage.model.device import MOST_DEVICES, GpuNodeKind
from ullage.model.provisioner import CapacityType, ConsolidationPolicy, Failure, TaintEffect

Duration = Annotated[str, DURATION]
Moment = Annotated[str, DATE_TIME, REQUIRED]
Labels = Annotated[dict[str, Annotated[str, LABEL_VALUE]], at_most_entries(64)]
Quantities = Annotated[dict[str, Annotated[int | str, QUANTITY]], at_most_entries(32)]
Parameters = Annotated[dict[str, Annotated[str, length(0, 1024)]], at_most_entries(64)]
ZoneName = Annotated[str, LABEL_VALUE, length(1, 63)]
MOST_NODES = 5000


class TemplateTaint(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A taint every new node has."""

    key: Annotated[str, REQUIRED, length(1, 316)] = ""
    value: Annotated[str, LABEL_VALUE] = ""
    effect: Annotated[str, REQUIRED, one_of(TaintEffect)] = ""


class TemplateGpus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """The GPUs of a new node, all alike."""

    model: Annotated[str, REQUIRED, length(1, 128)] = ""
    """As GpuNodeStatus will name it."""
    count: Annotated[int, REQUIRED, between(1, MOST_DEVICES)] = 0
    memory: Annotated[int | str | None, BYTES] = None
    """Of each GPU, such as 80Gi."""
    islands: Annotated[int, between(1, MOST_DEVICES)] = 1
    """NVLink islands of equal size; as many as GPUs if none are wired together."""
    bandwidth: Count = field(default=0, name="bandwidthGBps")
    """Between GPUs of one island, in GB/s."""
    kind: Annotated[str, one_of(GpuNodeKind)] = GpuNodeKind.LEASED.value
    """Leased: exact GPUs will be given by the scheduler. Counted: by a device plugin."""


class NodeTemplateSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """What a new node will be like: pods are tried on it before it is bought."""

    labels: Labels = {}
    """Beside gpu.scheduling/provisioner, which every node of the pool has."""
    taints: Annotated[tuple[TemplateTaint, ...], at_most_items(32)] = ()
    resources: Annotated[Quantities, REQUIRED] = {}
    """Allocatable: cpu, memory, and others such as ephemeral-storage. GPUs are said in gpus."""
    gpus: TemplateGpus
    capacity_type: Annotated[str, one_of(CapacityType)] = CapacityType.ON_DEMAND.value
    price_per_hour: Annotated[int | str | None, PRICE] = None
    """Of one node, in whatever currency all provisioners use, such as 98.32. Provisioners without a price come last."""
    zones: Annotated[tuple[ZoneName, ...], SET, at_most_items(16)] = ()
    """Where nodes may come up. Anywhere, if not said."""


class ProviderReference(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Who makes the nodes."""

    name: Annotated[str, REQUIRED, length(1, 63)] = ""
    """aws, clusterapi, kwok, simulated, or one that is installed beside them."""
    parameters: Parameters = {}
    """What this provider needs to know, such as a launch template; see its documentation."""


class ConsolidationSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """How nodes that are not needed go."""

    policy: Annotated[str, one_of(ConsolidationPolicy)] = ConsolidationPolicy.EMPTY_ONLY.value
    """EmptyOnly: empty nodes, by the thresholds of this spec. Drain: also nodes whose pods have a place elsewhere; the
    thresholds are floors then."""
    unneeded_time: Duration = "10m"
    """Drain: how long a node must have been unneeded before it goes."""
    unready_time: Duration = "20m"
    """Drain: the same for a node that is not ready."""
    utilization_threshold: Annotated[int, between(0, 100)] = field(default=50, name="utilizationThresholdPercent")
    """Drain: a node with more of its GPUs in use stays."""
    max_scale_down_parallelism: Annotated[int | None, between(1, MOST_NODES)] = None
    """Drain: nodes being removed at once. 10, if not said."""
    max_drain_parallelism: Annotated[int | None, between(0, MOST_NODES)] = None
    """Drain: of them, nodes with pods to evict; fewer, so that drains never hold up empty nodes. At most 5, if not
    said."""
    max_empty_bulk_delete: Annotated[int | None, between(1, MOST_NODES)] = None
    """Deprecated: say maxScaleDownParallelism."""


class NodeProvisionerSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A pool of equal GPU nodes."""

    provider: ProviderReference
    template: NodeTemplateSpec
    min_size: Annotated[int, between(0, MOST_NODES)] = 0
    """Nodes there always are."""
    max_size: Annotated[int, REQUIRED, between(1, MOST_NODES)] = 0
    """Nodes there are at most, coming and tainted ones included."""
    min_utilization: Annotated[int, between(0, 100)] = field(default=0, name="minGPUUtilizationPercent")
    """Below this part of its GPUs in use the pool shrinks to the largest size that meets it. 0: never."""
    min_unutilized: Annotated[int, between(0, MOST_NODES)] = field(default=0, name="minUnutilizedGPUNodes")
    """Empty nodes that stay whatever utilisation says. They are kept, never bought."""
    scale_down_delay: Duration = "10m"
    """From tainting an empty node to deleting it."""
    scale_up_batch: Duration = "10s"
    """How long the first pod of a burst waits for others to share new nodes with."""
    boot_deadline: Duration = "15m"
    """An instance that is no node with GPUs by then is replaced."""
    consolidation: ConsolidationSpec = field(default_factory=ConsolidationSpec)
    paused: bool = False
    """Nothing is bought, tainted or deleted."""
    recommend_only: bool = False
    """What would be done is said in the status, and not done."""


class TaintedNode(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A node that is to go."""

    name: Annotated[ObjectName, REQUIRED] = ""
    deletion_time: Moment = ""


class Decision(KubeStruct, frozen=True, gc=False, kw_only=True):
    """What was decided last."""

    action: Annotated[str, REQUIRED, length(1, 63)] = ""
    """Nothing, Release, Spare, Provision, Deprovision or Doom."""
    count: Count = 0
    """How many nodes it is about."""
    at: Moment = ""
    why: Annotated[str, length(0, 4096)] = ""
    recommended: bool = False
    """It was only said, and not done."""


class OpenPurchase(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Nodes asked for, with an answer that is not known yet. Asking again under the same serial buys nothing more."""

    serial: Annotated[int, at_least(0)] = 0
    count: Annotated[int, at_least(1), REQUIRED] = 0
    least: Count = 0
    zone: Annotated[str, LABEL_VALUE] = ""
    since: Moment = ""


class AwaitedInstance(KubeStruct, frozen=True, gc=False, kw_only=True):
    """An instance that was made and may not be listed yet."""

    id: Annotated[str, REQUIRED, length(1, 512)] = ""
    since: Moment = ""


class BackOffStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Why nothing is bought at this moment."""

    failure: Annotated[str, REQUIRED, one_of(Failure)] = ""
    failures: Count = 0
    """In a row."""
    until: Moment = ""
    message: Annotated[str, length(0, 4096)] = ""


class NodeProvisionerStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """How the pool is. Written by the controller alone."""

    current_size: Annotated[int | None, at_least(0)] = None
    """Nodes and instances, coming and tainted ones included."""
    target_size: Annotated[int | None, at_least(0)] = None
    coming_size: Annotated[int | None, at_least(0)] = None
    """Of the current ones, those that are no usable nodes yet."""
    utilization: Annotated[int | None, at_least(0)] = field(default=None, name="gpuUtilizationPercent")
    """GPUs requested of GPUs there are, tainted nodes included."""
    tainted_nodes: Annotated[tuple[TaintedNode, ...], map_by("name"), at_most_items(MOST_NODES)] = ()
    last_decision: Decision | None = None
    purchases: Count = 0
    """How many were begun."""
    purchase: OpenPurchase | None = None
    awaited: Annotated[tuple[AwaitedInstance, ...], map_by("id"), at_most_items(MOST_NODES)] = ()
    back_off: BackOffStatus | None = None
    conditions: Conditions = ()
    """Ready, ScalingUp, ScalingDown, CapacityBlocked, ScaleDownThrottled."""
    observed_generation: Count = 0
    """The generation of the spec this status is about."""


class NodeProvisioner(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A pool of GPU nodes that grows on demand and shrinks without regret. Its nodes carry its name in the label
    gpu.scheduling/provisioner."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeProvisionerSpec
    status: NodeProvisionerStatus = field(default_factory=NodeProvisionerStatus)
