"""Failures of capacity requests: the closed list of reasons, and the kind of each."""

from enum import StrEnum

import msgspec

from ullage.model.units import Instant


class FailureKind(StrEnum):
    """Kind of a failure, by what can help."""

    PERMANENT = "permanent"
    """Only a changed pod, mapping or NodePool helps."""
    LIMITS = "limits"
    CAPACITY = "capacity"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    LOST = "lost"


class FailureReason(StrEnum):
    """Reason a capacity request got no node. Closed list: it labels metric, Event, annotation and `explain`."""

    NO_MAPPING = "NoMapping"
    LARGER_THAN_ANY_NODE = "LargerThanAnyNode"
    NO_INSTANCE_TYPE = "NoInstanceType"
    INCOMPATIBLE = "IncompatibleRequirements"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    NO_REQUEST_KEY = "NodePoolWithoutRequestKey"
    DRA_UNSUPPORTED = "DraUnsupported"
    REJECTED = "SmartPodRejected"
    """The API server or an admission rule refused the smart pod."""
    NODE_UNSUITABLE = "NodeUnsuitable"
    """The node came and reported its GPUs, and the pod may not run on nodes like it: another one would be no better."""
    GANG_MEMBER_FAILED = "GangMemberFailed"
    NODE_POOL_LIMIT = "NodePoolLimit"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    NO_OFFERING = "NoOffering"
    NODE_CLAIM_LOST = "NodeClaimLost"
    NOT_INSTALLED = "KarpenterNotInstalled"
    """The cluster does not serve Karpenter's kinds."""
    NODE_POOL_NOT_FOUND = "NodePoolNotFound"
    NODE_POOL_NOT_READY = "NodePoolNotReady"
    PENDING_TIMEOUT = "PendingTimeout"
    LAUNCH_TIMEOUT = "LaunchTimeout"
    REGISTRATION_TIMEOUT = "RegistrationTimeout"
    INITIALIZATION_TIMEOUT = "InitializationTimeout"
    INVENTORY_TIMEOUT = "InventoryTimeout"
    GANG_TIMEOUT = "GangTimeout"
    HANDOVER_LOST = "HandoverLost"
    SMART_POD_EVICTED = "SmartPodEvicted"


FAILURE_KINDS: dict[FailureReason, FailureKind] = {
    FailureReason.NO_MAPPING: FailureKind.PERMANENT,
    FailureReason.LARGER_THAN_ANY_NODE: FailureKind.PERMANENT,
    FailureReason.NO_INSTANCE_TYPE: FailureKind.PERMANENT,
    FailureReason.INCOMPATIBLE: FailureKind.PERMANENT,
    FailureReason.TAINT_NOT_TOLERATED: FailureKind.PERMANENT,
    FailureReason.NO_REQUEST_KEY: FailureKind.PERMANENT,
    FailureReason.DRA_UNSUPPORTED: FailureKind.PERMANENT,
    FailureReason.REJECTED: FailureKind.PERMANENT,
    FailureReason.NODE_UNSUITABLE: FailureKind.PERMANENT,
    FailureReason.GANG_MEMBER_FAILED: FailureKind.PERMANENT,
    FailureReason.NODE_POOL_LIMIT: FailureKind.LIMITS,
    FailureReason.INSUFFICIENT_CAPACITY: FailureKind.CAPACITY,
    FailureReason.NO_OFFERING: FailureKind.CAPACITY,
    FailureReason.NODE_CLAIM_LOST: FailureKind.CAPACITY,
    FailureReason.NOT_INSTALLED: FailureKind.UNAVAILABLE,
    FailureReason.NODE_POOL_NOT_FOUND: FailureKind.UNAVAILABLE,
    FailureReason.NODE_POOL_NOT_READY: FailureKind.UNAVAILABLE,
    FailureReason.PENDING_TIMEOUT: FailureKind.TIMEOUT,
    FailureReason.LAUNCH_TIMEOUT: FailureKind.TIMEOUT,
    FailureReason.REGISTRATION_TIMEOUT: FailureKind.TIMEOUT,
    FailureReason.INITIALIZATION_TIMEOUT: FailureKind.TIMEOUT,
    FailureReason.INVENTORY_TIMEOUT: FailureKind.TIMEOUT,
    FailureReason.GANG_TIMEOUT: FailureKind.TIMEOUT,
    FailureReason.HANDOVER_LOST: FailureKind.LOST,
    FailureReason.SMART_POD_EVICTED: FailureKind.LOST,
}


class RequestFailure(msgspec.Struct, frozen=True, gc=False):
    """Failure of a request, with the sentence for the owner of its pod."""

    reason: FailureReason
    message: str
    cause: FailureReason | None = None
    """Reason of the gang member that failed: the others are asked for again when that one is."""
    goes_on: bool = False
    """Permanent for one mapping of the gang member that failed, and another one is left for it."""

    @property
    def kind(self) -> FailureKind:
        return FAILURE_KINDS[self.cause or self.reason]


class RefusedMapping(msgspec.Struct, frozen=True, gc=False):
    """Permanent failure of a request at one mapping: it is not asked again."""

    mapping: str
    reason: FailureReason
    message: str


class RecordedFailure(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Last failure, as it is recorded on a waiting pod."""

    reason: FailureReason
    message: str
    attempts: int
    retry_at: Instant
    fingerprint: str
    """Fingerprint of the attempt: the pod's need, the mappings and the NodePools. Another one starts attempts anew."""
    at: Instant = Instant(0.0)
    """Instant at which it was recorded."""
    exhausted: tuple[str, ...] = ()
    """Mappings that had no capacity in this round."""
    refused: tuple[RefusedMapping, ...] = ()
    """Mappings that failed permanently, in the order in which they were asked."""
