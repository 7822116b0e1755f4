"""Records of Karpenter and smart pods: NodeClaims, NodePools, capacity requests, mappings, hand-overs. Frozen."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from ullage.model.claim import DeviceRequest
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter_failure import RecordedFailure
from ullage.model.node import Taint
from ullage.model.selector import Requirement
from ullage.model.shape_terms import NodeTerm, Pairs, Toleration
from ullage.model.units import Bytes, Instant, Micros, Seconds

KARPENTER = "karpenter"
"""Reporter of Karpenter's Events."""
REQUEST_LABEL = "gpu.scheduling/request"
"""Label of smart pod, NodeClaim and Node: the request id."""
HANDOVER = "gpu.scheduling/handover"
"""Taint that closes a node for one request; annotation of the Node with the hand-over under way."""
UNCLAIMED = "unclaimed"
"""Value of the taint on a node that was not handed over yet: NodePools set it as a startup taint."""
HANDOVER_UNPROTECTED = "HandoverUnprotected"
"""Condition of a NodePool, set by us: its nodes are open to other schedulers before their hand-over."""
CAPACITY_CONDITION = "gpu.scheduling/CapacityAvailable"
"""Condition of a waiting pod: False with the reason while Karpenter cannot serve its request."""
CAPACITY_FAILURE = "gpu.scheduling/capacity-failure"
"""Annotation of a waiting pod: the last failure of its capacity request, as JSON."""

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DISRUPTED_TAINT = "karpenter.sh/disrupted"
NODE_POOL_LABEL = "karpenter.sh/nodepool"
INITIALIZED_LABEL = "karpenter.sh/initialized"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
GPU_TAINT = "nvidia.com/gpu"

PREFIX = "tensor-fusion.ai"
COMPONENT_LABEL = f"{PREFIX}/component"
SMART_SCHEDULER = "smart-scheduler"
MODEL_LABEL = f"{PREFIX}/gpu-model"
POOL_LABEL = f"{PREFIX}/pool"
TRIGGER_LABEL = f"{PREFIX}/trigger-type"
STATE_LABEL = f"{PREFIX}/state"
CREATED_BY = f"{PREFIX}/created-by"
PURPOSE = f"{PREFIX}/purpose"
ORIGINAL_REQUEST = f"{PREFIX}/original-request"
CLEANUP_AFTER = f"{PREFIX}/cleanup-after"
STATE_SINCE = f"{PREFIX}/state-since"
ATTEMPTS = f"{PREFIX}/attempts"
NODE_CLAIM = f"{PREFIX}/node-claim"


def is_smart_pod(labels: Mapping[str, str]) -> bool:
    """True if the pod only makes Karpenter buy a node for another pod. It is no demand of its own."""
    return labels.get(COMPONENT_LABEL) == SMART_SCHEDULER


class Tristate(StrEnum):
    """Status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class ObservedCondition(msgspec.Struct, frozen=True, gc=False):
    """One condition of a NodeClaim or NodePool."""

    status: Tristate = Tristate.UNKNOWN
    reason: str = ""
    message: str = ""
    since: Instant = Instant(0.0)


UNSAID = ObservedCondition()


class NodeClaim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one NodeClaim."""

    name: str
    uid: str
    created: Instant
    deleting: bool
    labels: dict[str, str] = {}
    node: str = ""
    """Name of its Node; empty until that has registered."""
    requests: dict[str, int] = {}
    """Resources that Karpenter asked for, of all pods it was made for. The node may have more."""
    requirements: tuple[Requirement, ...] = ()
    conditions: dict[str, ObservedCondition] = {}

    @property
    def request(self) -> str:
        """Id of the capacity request it was made for; empty where it was made for none."""
        return self.labels.get(REQUEST_LABEL, "")

    @property
    def node_pool(self) -> str:
        return self.labels.get(NODE_POOL_LABEL, "")

    def condition(self, name: str) -> ObservedCondition:
        return self.conditions.get(name, UNSAID)

    def holds(self, name: str) -> bool:
        return self.condition(name).status is Tristate.TRUE


class NodePool(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one NodePool."""

    name: str
    uid: str
    generation: int
    deleting: bool
    requirements: tuple[Requirement, ...] = ()
    labels: dict[str, str] = {}
    """Labels of its nodes."""
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    limits: dict[str, int] = {}
    """Limits in thousandths; a resource that is not named has none."""
    usage: dict[str, int] = {}
    ready: ObservedCondition = UNSAID
    unprotected: ObservedCondition = UNSAID
    """Condition HandoverUnprotected."""

    @property
    def has_request_key(self) -> bool:
        """True if nodes get the label of the request they are bought for."""
        return REQUEST_LABEL in self.labels or any(one.key == REQUEST_LABEL for one in self.requirements)


class Regarding(StrEnum):
    """Kinds of objects Karpenter's Events are about, as far as they are read."""

    POD = "Pod"
    NODE_CLAIM = "NodeClaim"


class KarpenterEvent(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Event that Karpenter wrote about a smart pod or a NodeClaim."""

    key: ObjectKey
    regarding: Regarding
    about: ObjectKey
    about_uid: str
    reason: str
    note: str
    at: Instant
    reporter: str = KARPENTER


class WaitingPod(msgspec.Struct, frozen=True, gc=False):
    """Identity of one pod that capacity is requested for."""

    key: ObjectKey
    uid: str


class CapacityRequest(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Need of one waiting pod that fits nowhere, as the provisioning plan hands it over."""

    pod: WaitingPod
    ask: DeviceRequest
    requests: tuple[tuple[str, int], ...] = ()
    """Requests of the pod, in thousandths, sorted."""
    node_selector: Pairs = ()
    node_affinity: tuple[NodeTerm, ...] | None = None
    """Its own, with what its volumes require of a node."""
    tolerations: tuple[Toleration, ...] = ()
    gang: ObjectKey | None = None
    gang_size: int = 0
    shareable: bool = False
    """No rule about other pods, and no host port: the pod may share a node with its like."""
    why: str = ""
    """The scheduler's most telling reason."""
    failure: RecordedFailure | None = None
    vm_nodes: Pairs | None = None
    """Labels of nodes meant for VMs, where a VM without GPUs needs the node. Such a node is not handed over."""


class NodePoolMapping(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Properties of the nodes of one NodePool, from the settings."""

    name: str
    node_pool: str
    gpu_model: str = ""
    """GPU model of its nodes; empty where they have no GPUs."""
    gpu_memory: Bytes = Bytes(0)
    """Bytes of one GPU; 0 is unknown and satisfies no claim that asks for memory."""
    tflops: int = 0
    """TFLOPS of one GPU; 0 takes the known value of the model."""
    gpus_per_node: int = 8
    """GPUs of the largest node; 0 for nodes without GPUs, which serve VMs and no claim."""
    price_per_gpu: Micros = Micros(0)
    """Millionths per hour; 0 is unknown."""
    labels: dict[str, str] = {}
    instance_types: tuple[str, ...] = ()
    memory_from_vram: bool = False


class SmartPod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one smart pod."""

    key: ObjectKey
    uid: str
    created: Instant
    request: str
    """Request id, by its label."""
    node: str = ""
    over: bool = False
    """Succeeded or Failed."""
    deleting: bool = False
    grace_period: Seconds = Seconds(0.0)
    """If it is being deleted: the time its kubelet has."""
    original: "OriginalRequest | None" = None
    """None where the annotation cannot be read."""
    state: str = ""
    """State, by its label."""
    state_since: Instant = Instant(0.0)
    attempts: int = 0
    node_claim: str = ""


class OriginalRequest(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Capacity request of a smart pod, as its annotation keeps it: enough to continue after a restart."""

    id: str
    mapping: str
    pods: tuple[WaitingPod, ...]
    gpu_model: str
    gpu_count: int
    reason: str = ""
    vram: int = 0
    tflops: int = 0
    asks: tuple[DeviceRequest, ...] = ()
    """Device request of each pod, in the order of `pods`."""
    gang: ObjectKey | None = None
    gang_size: int = 0
    node_affinity: tuple[NodeTerm, ...] | None = None
    fingerprint: str = ""
    exhausted: tuple[str, ...] = ()
    for_vm: bool = False
    """A VM needs the node, which is opened as soon as it is ready: nothing is leased."""


class Handover(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Hand-over under way, as the Node's annotation keeps it."""

    request: str
    pods: tuple[WaitingPod, ...]
    since: Instant
    was_kept: bool = False
    """The node was annotated do-not-disrupt before: the annotation stays."""


class HandoverNode(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of a node that was bought for a request, as hand-over needs them. Placement does not read them."""

    name: str
    uid: str
    resource_version: str
    request: str
    """Request id, by its label."""
    node_pool: str = ""
    ready: bool = False
    deleting: bool = False
    initialized: bool = False
    disrupted: bool = False
    """Karpenter is about to remove it."""
    gpus: int = 0
    """Allocatable whole GPUs."""
    closed_for: str | None = None
    """Value of the hand-over taint; None where it has none."""
    handover: Handover | None = None
    kept: bool = False
    """Annotated do-not-disrupt."""

    @property
    def going(self) -> bool:
        return self.deleting or self.disrupted


class NodeClaimEventType(StrEnum):
    CREATED = "Created"
    LAUNCHING = "Launching"
    REGISTERING = "Registering"
    READY = "Ready"
    FAILED = "Failed"


class NodeClaimEvent(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One step of a NodeClaim, as the monitor reports it."""

    type: NodeClaimEventType
    node_claim: str
    node: str
    timestamp: Instant
