"""Our own kinds, and the gangs of others: GpuClaim, GpuNodeStatus, GpuQuota, PodGroup.

The custom resource definitions are made from these structs: a docstring here is what `kubectl explain` prints, a
default is what the API server fills in, a mark is a limit it enforces. Laws between fields are in
`ullage.kube.crds.rules`.
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
from ullage.model.device import MOST_DEVICES, GpuNodeKind, Health

Bytes = Annotated[int | str, BYTES]
Count = Annotated[int, at_least(0)]
DeviceId = Annotated[int, between(0, MOST_DEVICES - 1)]
ModelName = Annotated[str, length(1, 128)]
ObjectName = Annotated[str, OBJECT_NAME]
Conditions = Annotated[tuple[Condition, ...], map_by("type"), at_most_items(16)]
CountByModel = Annotated[dict[str, Count], at_most_entries(64)]


class DeviceRequest(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Which GPUs would do."""

    count: Annotated[int, at_least(1)] = 1
    """How many GPUs, all of one node."""
    policy: Annotated[str, one_of(DevicePolicy)] = DevicePolicy.CONTIGUOUS.value
    """Which of a node's free GPUs: contiguous takes the fewest NVLink islands, spread the most, preferIds exactly the
    GPUs named in preferIds."""
    prefer_ids: Annotated[tuple[DeviceId, ...], SET, at_most_items(MOST_DEVICES)] = ()
    """The GPUs to take, by id; as many as count, with policy preferIds and only then. Whatever the exclusivity: these
    are the GPUs the whole devices, shares or MIG instances are taken from."""
    exclusivity: Annotated[str, one_of(Exclusivity)] = Exclusivity.EXCLUSIVE.value
    """Exclusive takes whole GPUs; Shared takes the part of each that memory or tflops ask for; MIG takes the smallest
    MIG instance with enough memory."""
    model: Annotated[str, length(1, 128)] = ""
    """The GPU model, as GpuNodeStatus names it. Any, if not said."""
    memory: Annotated[int | str | None, BYTES] = None
    """Memory of each GPU, such as 40Gi: the least it must have, and with Shared and MIG what is taken of it."""
    tflops: Annotated[int | None, at_least(1)] = None
    """Compute of each GPU in TFLOPS: the least it must have, and with Shared what is taken of it."""


class ClaimSelector(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Which nodes would do."""

    match_labels: Annotated[dict[str, Annotated[str, LABEL_VALUE]], at_most_entries(32)] = {}
    """Labels the node must have, beside what the pod itself asks for."""


class ClaimTopology(KubeStruct, frozen=True, gc=False, kw_only=True):
    """How the GPUs of the claim must be wired to each other."""

    mode: Annotated[str, one_of(TopologyMode)] = TopologyMode.PREFERRED.value
    """Required refuses GPUs of different NVLink islands or below minBandwidthGBps; Preferred ranks them lower; Ignore
    does not look."""
    min_bandwidth: Count = field(default=0, name="minBandwidthGBps")
    """The least bandwidth between the GPUs, in GB/s."""


class GpuClaimSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """What is asked for. Cannot change while the claim holds GPUs."""

    devices: DeviceRequest = field(default_factory=DeviceRequest)
    selector: ClaimSelector = field(default_factory=ClaimSelector)
    topology: ClaimTopology = field(default_factory=ClaimTopology)
    gang_ref: ObjectName = ""
    """The gang this claim belongs to: the name of a PodGroup in its namespace, or, with gangMinMember, a word the
    gang's claims share. All its members are placed together or none is."""
    gang_min_member: Annotated[int | None, at_least(1)] = None
    """How many members the gang needs, where no PodGroup says so."""
    pool: ObjectName = ""
    """The pool of nodes to stay in. Any, if not said."""


class GpuClaimStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """What the claim holds at this moment. Written by the scheduler alone."""

    phase: Annotated[str, one_of(ClaimPhase)] = ""
    """Pending: holds nothing. Reserved: its GPUs are leased, the pod is not bound yet. Bound: the pod is on the node.
    Failed: cannot be satisfied as it is; message says why."""
    node_name: ObjectName = ""
    """The node of the GPUs."""
    gpu_ids: Annotated[tuple[DeviceId, ...], at_most_items(MOST_DEVICES)] = ()
    """The GPUs it holds, ascending."""
    allocated: Annotated[str, length(0, 512)] = ""
    """Node and GPUs in one word: node-a:0,1. Equal to the pod's annotation gpu.scheduling/allocated."""
    message: Annotated[str, length(0, 4096)] = ""
    """In words, for people."""
    conditions: Conditions = ()
    """Allocated: does it hold all that it asks for, and if not, for which reason."""
    observed_generation: Count = 0
    """The generation of the spec this status is about."""


class GpuClaim(KubeStruct, frozen=True, gc=False, kw_only=True):
    """The GPUs one pod asks for. A pod names its claim in the annotation gpu.scheduling/claim, or, to get a copy of its
    own, a claim to copy in gpu.scheduling/claim-template."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: GpuClaimSpec
    status: GpuClaimStatus = field(default_factory=GpuClaimStatus)


class MigInstance(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A hardware partition of a GPU."""

    uuid: Annotated[str, length(1, 128)]
    profile: Annotated[str, length(1, 64)] = ""
    """Its size as NVIDIA names it, such as 1g.10gb."""
    memory: Annotated[Bytes, REQUIRED] = 0


class GpuDevice(KubeStruct, frozen=True, gc=False, kw_only=True):
    """One GPU."""

    id: DeviceId
    """Its number on the node, counted from 0 in PCI bus order."""
    uuid: Annotated[str, REQUIRED, length(1, 128)] = ""
    model: Annotated[ModelName, REQUIRED] = ""
    memory: Annotated[Bytes, REQUIRED] = 0
    health: Annotated[str, one_of(Health), REQUIRED] = Health.UNKNOWN.value
    """Only Healthy GPUs are given to anybody."""
    island: Annotated[str, length(0, 128)] = ""
    """The NVLink island it is wired into; GPUs of one island reach each other directly. Stands alone, if not said."""
    bandwidth: Count = field(default=0, name="bandwidthGBps")
    """To its peers in the island, in GB/s."""
    peers: Annotated[tuple[DeviceId, ...], at_most_items(MOST_DEVICES)] = ()
    """The GPUs it has a direct link to."""
    in_use_by: Annotated[tuple[Annotated[str, length(1, 128)], ...], at_most_items(256)] = ()
    """UIDs of the pods whose processes were seen on it."""
    mig: Annotated[tuple[MigInstance, ...], map_by("uuid"), at_most_items(16)] = ()
    """Its MIG instances, if it is partitioned."""


class GpuNodeSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Which node this is about."""

    node_name: Annotated[ObjectName, REQUIRED] = ""
    """The node's name, which is also the name of this object: a node has one."""


class GpuNodeReport(KubeStruct, frozen=True, gc=False, kw_only=True):
    """What the node's agent found, and when."""

    total: Annotated[int | None, between(0, MOST_DEVICES)] = None
    """How many GPUs the node has."""
    healthy: Annotated[int | None, between(0, MOST_DEVICES)] = None
    """How many of them are Healthy."""
    observed_at: Annotated[str | None, DATE_TIME] = None
    """When the agent looked. A report that is too old takes no new pods."""
    kind: Annotated[str, one_of(GpuNodeKind)] = ""
    """Leased: exact GPUs are given by the scheduler. Counted: a device plugin chooses, and only counts are."""
    devices: Annotated[tuple[GpuDevice, ...], map_by("id"), at_most_items(MOST_DEVICES)] = ()
    conditions: Conditions = ()
    """Ready: could the agent read the GPUs, and if not, for which reason."""


class GpuNodeStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """The GPUs of one node, as its agent sees them."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: GpuNodeSpec
    status: GpuNodeReport = field(default_factory=GpuNodeReport)


class GpuQuotaSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """The most the claims of this namespace may hold at once. What is not named is not limited."""

    gpus: Annotated[int | None, at_least(0)] = None
    """Whole GPUs, of whatever model."""
    by_model: CountByModel = {}
    """Whole GPUs of each model. A claim that names no model counts for the model it was given."""
    shares: Annotated[int | None, at_least(0)] = field(default=None, name="sharesMilli")
    """Parts of GPUs in thousandths: of Shared claims their shares, of MIG claims the part of the GPU's memory."""


class QuotaUse(KubeStruct, frozen=True, gc=False, kw_only=True):
    """What is held of each limit."""

    gpus: Annotated[int | None, at_least(0)] = None
    by_model: CountByModel = {}
    shares: Annotated[int | None, at_least(0)] = field(default=None, name="sharesMilli")


class GpuQuotaStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """What the namespace's claims hold at this moment."""

    used: QuotaUse = field(default_factory=QuotaUse)
    conditions: Conditions = ()
    """Exhausted: has a claim been refused because of this quota."""
    observed_generation: Count = 0
    """The generation of the spec this status is about."""


class GpuQuota(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A limit on the GPUs of a namespace. The name is free; where a namespace has several, the strictest limit of each
    kind applies."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: GpuQuotaSpec
    status: GpuQuotaStatus = field(default_factory=GpuQuotaStatus)


class PodGroupSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """What the gang needs."""

    min_member: Annotated[int, at_least(1)] = 1
    """How many pods must be placed together."""
    schedule_timeout_seconds: Annotated[int | None, at_least(1)] = None
    """How long the gang may hold GPUs while it waits for its other members."""


class PodGroupStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    """How far the gang is."""

    phase: str = ""
    scheduled: int = 0
    running: int = 0


class PodGroup(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A gang: pods that are placed together or not at all. The kind is that of Kubernetes' scheduler plugins; where
    they are installed, their definition of it is the one to use."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: Annotated[PodGroupSpec, OPEN] = field(default_factory=PodGroupSpec)
    status: Annotated[PodGroupStatus, OPEN] = field(default_factory=PodGroupStatus)


class GangPolicy(KubeStruct, frozen=True, gc=False, kw_only=True):
    """All or nothing."""

    min_count: int = 1


class GroupPolicy(KubeStruct, frozen=True, gc=False, kw_only=True):
    """How the pods of a group are placed: together, or each on its own where no gang is said."""

    gang: GangPolicy | None = None


class KubePodGroupSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    scheduling_policy: GroupPolicy = field(default_factory=GroupPolicy)


class KubePodGroup(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A gang as Kubernetes' own API has it, where it is served (scheduling.k8s.io)."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: KubePodGroupSpec = field(default_factory=KubePodGroupSpec)
