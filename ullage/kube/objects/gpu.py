"""Custom resources of this project, GpuClaim, GpuNodeStatus and GpuQuota; and PodGroups of other projects.

The custom resource definitions are generated from these structs: `kubectl explain` prints the docstrings, the API
server fills in the defaults and enforces the marks. Rules between fields are in `ullage.kube.crds.rules`.
"""

from typing import Annotated

from msgspec import field

from ullage.kube.crds.marks import (
    BYTES,
    DATE_TIME,
    LABEL_VALUE,
    OBJECT_NAME,
    OPEN,
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
from ullage.kube.objects.meta import Condition, ObjectMeta
from ullage.model.claim import ClaimPhase, DevicePolicy, Exclusivity, TopologyMode
from ullage.model.device import MOST_DEVICES, DeviceHealth, GpuNodeKind

Bytes = Annotated[int | str, BYTES]
Count = Annotated[int, at_least(0)]
DeviceId = Annotated[int, between(0, MOST_DEVICES - 1)]
ModelName = Annotated[str, length(1, 128)]
ObjectName = Annotated[str, OBJECT_NAME]
Conditions = Annotated[tuple[Condition, ...], map_by("type"), at_most_items(16)]
CountByModel = Annotated[dict[str, Count], at_most_entries(64)]


class GpuClaimDevices(KubeStruct, frozen=True, gc=False, kw_only=True):
    """GPUs the claim asks for."""

    count: Annotated[int, at_least(1)] = 1
    """Number of GPUs. All are on one node."""
    policy: Annotated[str, one_of(DevicePolicy)] = DevicePolicy.CONTIGUOUS.value
    """Choice among the free GPUs of a node: contiguous uses the fewest NVLink islands, spread the most, preferIds
    exactly the GPUs named in preferIds."""
    prefer_ids: Annotated[tuple[DeviceId, ...], SET, at_most_items(MOST_DEVICES)] = ()
    """Ids of the GPUs to use, as many as count. Set with policy preferIds only. Whole GPUs, shares and MIG instances
    are all taken from these GPUs."""
    exclusivity: Annotated[str, one_of(Exclusivity)] = Exclusivity.EXCLUSIVE.value
    """Exclusive takes whole GPUs; Shared takes the part of each that memory or tflops ask for; MIG takes the smallest
    MIG instance with enough memory."""
    model: Annotated[str, length(1, 128)] = ""
    """GPU model: words of the name in GpuNodeStatus, such as H100. Bars separate alternatives: H100|H200. Any model, if
    not set."""
    memory: Annotated[int | str | None, BYTES] = None
    """Memory per GPU, such as 40Gi: the minimum a GPU must have, and with Shared and MIG the amount taken of it."""
    tflops: Annotated[int | None, at_least(1)] = None
    """Compute per GPU in TFLOPS: the minimum a GPU must have, and with Shared the amount taken of it."""


class ClaimSelector(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Nodes the claim may be placed on."""

    match_labels: Annotated[dict[str, Annotated[str, LABEL_VALUE]], at_most_entries(32)] = {}
    """Labels the node must have, in addition to the constraints of the pod."""


class ClaimTopology(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Interconnect required between the GPUs of the claim."""

    mode: Annotated[str, one_of(TopologyMode)] = TopologyMode.PREFERRED.value
    """Required refuses GPUs of different NVLink islands or below minBandwidthGBps; Preferred ranks them lower; Ignore
    does not look."""
    min_bandwidth: Count = field(default=0, name="minBandwidthGBps")
    """Minimum bandwidth between the GPUs, in GB/s."""


class GpuClaimSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Requested GPUs, nodes and interconnect. Cannot be changed while the claim holds GPUs."""

    devices: GpuClaimDevices = field(default_factory=GpuClaimDevices)
    selector: ClaimSelector = field(default_factory=ClaimSelector)
    topology: ClaimTopology = field(default_factory=ClaimTopology)
    gang_ref: ObjectName = ""
    """Gang of this claim: the name of a PodGroup in its namespace, or, with gangMinMember, a name that the claims of
    the gang share. Members of a gang are placed together or not at all."""
    gang_min_member: Annotated[int | None, at_least(1)] = None
    """Number of members the gang needs, where no PodGroup sets it."""
    pool: ObjectName = ""
    """Pool whose nodes may be used. Any pool, if not set."""


class GpuClaimStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Current allocation of the claim. Written by the scheduler only."""

    phase: Annotated[str, one_of(ClaimPhase)] = ""
    """Pending: holds nothing. Reserved: its GPUs are leased, the pod is not bound yet. Bound: the pod is on the node.
    Failed: cannot be satisfied as it is; message says why."""
    node_name: ObjectName = ""
    """Node of the GPUs."""
    gpu_ids: Annotated[tuple[DeviceId, ...], at_most_items(MOST_DEVICES)] = ()
    """Ids of the GPUs the claim holds, ascending."""
    allocated: Annotated[str, length(0, 512)] = ""
    """Node and GPUs in one word: node-a:0,1. Equal to the pod's annotation gpu.scheduling/allocated."""
    message: Annotated[str, length(0, 4096)] = ""
    """Human-readable explanation of the phase."""
    conditions: Conditions = ()
    """Allocated: True if the claim holds all GPUs it asks for; else the reason."""
    observed_generation: Count = 0
    """The generation of the spec this status is about."""


class GpuClaim(KubeStruct, frozen=True, gc=False, kw_only=True):
    """The GPUs one pod asks for. A pod names its claim in the annotation gpu.scheduling/claim, or, to get a copy of its
    own, a claim to copy in gpu.scheduling/claim-template."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: GpuClaimSpec
    status: GpuClaimStatus = field(default_factory=GpuClaimStatus)


class KubeMigInstance(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A hardware partition of a GPU."""

    uuid: Annotated[str, length(1, 128)]
    profile: Annotated[str, length(1, 64)] = ""
    """MIG profile, such as 1g.10gb."""
    memory: Annotated[Bytes, REQUIRED] = 0


class GpuDevice(KubeStruct, frozen=True, gc=False, kw_only=True):
    """One GPU."""

    id: DeviceId
    """Number of the GPU on its node, from 0 in PCI bus order."""
    uuid: Annotated[str, REQUIRED, length(1, 128)] = ""
    model: Annotated[ModelName, REQUIRED] = ""
    memory: Annotated[Bytes, REQUIRED] = 0
    health: Annotated[str, one_of(DeviceHealth), REQUIRED] = DeviceHealth.UNKNOWN.value
    """Health of the GPU. Only Healthy GPUs are allocated."""
    island: Annotated[str, length(0, 128)] = ""
    """NVLink island of the GPU. GPUs of one island are directly connected. The GPU is alone, if not set."""
    bandwidth: Count = field(default=0, name="bandwidthGBps")
    """Bandwidth to the peers in the island, in GB/s."""
    peers: Annotated[tuple[DeviceId, ...], at_most_items(MOST_DEVICES)] = ()
    """Ids of the GPUs with a direct link to this GPU."""
    in_use_by: Annotated[tuple[Annotated[str, length(1, 128)], ...], at_most_items(256)] = ()
    """UIDs of the pods whose processes the agent saw on the GPU."""
    mig: Annotated[tuple[KubeMigInstance, ...], map_by("uuid"), at_most_items(16)] = ()
    """MIG instances of the GPU, if it is partitioned."""


class GpuNodeSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Node that this inventory describes."""

    node_name: Annotated[ObjectName, REQUIRED] = ""
    """Name of the node. It must equal the name of this object."""


class GpuNodeReport(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Report of the node's agent: the GPUs it found, and the time."""

    total: Annotated[int | None, between(0, MOST_DEVICES)] = None
    """Number of GPUs of the node."""
    healthy: Annotated[int | None, between(0, MOST_DEVICES)] = None
    """Number of GPUs that are Healthy."""
    observed_at: Annotated[str | None, DATE_TIME] = None
    """Time of the report. A node with too old a report gets no new pods."""
    kind: Annotated[str, one_of(GpuNodeKind)] = ""
    """Leased: the scheduler allocates exact GPUs. Counted: the scheduler allocates a number, and a device plugin
    chooses the GPUs. DRA: kube-scheduler allocates them, by ResourceClaims."""
    devices: Annotated[tuple[GpuDevice, ...], map_by("id"), at_most_items(MOST_DEVICES)] = ()
    conditions: Conditions = ()
    """Ready: True if the agent could read the GPUs; else the reason."""


class GpuNodeStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Inventory of the GPUs of one node, as its agent reports them."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: GpuNodeSpec
    status: GpuNodeReport = field(default_factory=GpuNodeReport)


class GpuQuotaSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Limits on what the claims of this namespace may hold at once. A field that is not set is no limit."""

    gpus: Annotated[int | None, at_least(0)] = None
    """Whole GPUs, of any model."""
    by_model: CountByModel = {}
    """Whole GPUs by model. A claim without a model counts for the model allocated to it."""
    shares: Annotated[int | None, at_least(0)] = field(default=None, name="sharesMilli")
    """Parts of GPUs in thousandths: the shares of Shared claims, and for MIG claims the part of the GPU's memory."""


class QuotaUse(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Amount in use of each limit."""

    gpus: Annotated[int | None, at_least(0)] = None
    by_model: CountByModel = {}
    shares: Annotated[int | None, at_least(0)] = field(default=None, name="sharesMilli")


class GpuQuotaStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Current usage by the claims of the namespace."""

    used: QuotaUse = field(default_factory=QuotaUse)
    conditions: Conditions = ()
    """Exhausted: True if a claim has been refused because of this quota."""
    observed_generation: Count = 0
    """The generation of the spec this status is about."""


class GpuQuota(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A limit on the GPUs of a namespace. The name is free; where a namespace has several, the strictest limit of each
    kind applies."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: GpuQuotaSpec
    status: GpuQuotaStatus = field(default_factory=GpuQuotaStatus)


class PodGroupSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Size and timeout of the gang."""

    min_member: Annotated[int, at_least(1)] = 1
    """Number of pods that must be placed together."""
    schedule_timeout_seconds: Annotated[int | None, at_least(1)] = None
    """Seconds the gang may hold GPUs while it waits for its other members."""


class PodGroupStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Progress of the gang."""

    phase: str = ""
    scheduled: int = 0
    running: int = 0


class CoschedulingPodGroup(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A gang: pods that are placed together or not at all. The kind is that of Kubernetes' scheduler plugins; where
    they are installed, their definition of it is the one to use."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: Annotated[PodGroupSpec, OPEN] = field(default_factory=PodGroupSpec)
    status: Annotated[PodGroupStatus, OPEN] = field(default_factory=PodGroupStatus)


class GangPolicy(KubeStruct, frozen=True, gc=False, kw_only=True):
    """All or nothing."""

    min_count: int = 1


class GroupPolicy(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Placement of the pods of a group: together with gang set, each on its own without."""

    gang: GangPolicy | None = None


class KubePodGroupSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    scheduling_policy: GroupPolicy = field(default_factory=GroupPolicy)


class KubePodGroup(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A gang as Kubernetes' own API has it, where it is served (scheduling.k8s.io)."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: KubePodGroupSpec = field(default_factory=KubePodGroupSpec)
