"""Admission requests to the webhook, and its answers. Records only; `decide.admit` decides.

A pod is seen here as a user wrote it: its containers with their env, not what placement makes of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from ullage.model.allocation import ALLOCATED, CLAIM, CLAIM_TEMPLATE, SHARE, VISIBLE_DEVICES, VISIBLE_INDICES
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Milli

UNSETTLED_BIND = "gpu.scheduling/unsettled-bind"
"""Annotation the scheduler writes on a pod whose bind got no answer."""

OUTPUTS = (ALLOCATED, SHARE, UNSETTLED_BIND, VISIBLE_DEVICES, VISIBLE_INDICES)
"""Annotations only the scheduler may write: they name the GPUs a pod holds. Sorted."""

INPUTS = (CLAIM, CLAIM_TEMPLATE)
"""Annotations a user writes, once: at the pod's creation."""

LEASED_TAINT = "gpu.scheduling/leased"
"""Taint that keeps pods of other schedulers off nodes whose GPUs are leased."""

Annotations = Mapping[str, str]


class ContainerRole(StrEnum):
    """Role of a container in its pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    """Init container that keeps running."""
    APP = "app"
    EPHEMERAL = "ephemeral"


class ContainerPath(msgspec.Struct, frozen=True, gc=False):
    """Path of a container in its pod: the list of its role, and the index in that list."""

    role: ContainerRole
    index: int


class EnvVar(msgspec.Struct, frozen=True, gc=False):
    """Environment variable: a literal `value`, or an `annotation` of the pod as its value. Any other is foreign."""

    name: str
    value: str | None = None
    annotation: str | None = None


class AdmissionContainer(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One container as it was requested."""

    spot: ContainerPath
    name: str
    env: tuple[EnvVar, ...] = ()
    gpus_milli: Milli = Milli(0)
    """nvidia.com/gpu in thousandths: the larger of its request and its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPod:
    """Pod as it was requested."""

    key: ObjectKey
    annotations: Annotations = field(default_factory=dict)
    scheduler: str = ""
    node: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerated: tuple[str, ...] = ()
    """Keys of taints the pod tolerates with every value and effect NoSchedule; an empty one stands for all keys."""
    tolerates_leased: bool = False
    """True if the taint of leased nodes does not keep the pod off."""
    keeps_off_leased: bool = False
    """True if the pod's own selector or affinity keeps it off leased nodes, whatever it tolerates."""
    asks_for_gpus: bool = False
    """True if the pod requests GPUs by number, env, annotations or mounts: by other means than a GpuClaim."""
    smart: bool = False
    """True if its labels say that it only makes Karpenter buy a node. Anybody may write labels."""
    loopholes: tuple[str, ...] = ()
    """Fields by which its containers could reach GPUs that are not theirs."""
    containers: tuple[AdmissionContainer, ...] = ()
    """Init containers and sidecars in their order, then the others."""

    @property
    def claim(self) -> str:
        """Claim or template the pod names; empty where none."""
        return self.annotations.get(CLAIM) or self.annotations.get(CLAIM_TEMPLATE) or ""


@dataclass(frozen=True, slots=True)
class DropAnnotation:
    key: str


@dataclass(frozen=True, slots=True)
class SetScheduler:
    name: str


@dataclass(frozen=True, slots=True)
class SetEnv:
    """Drop entries of a container's env, by index, and put these first."""

    spot: ContainerPath
    drop: tuple[int, ...]
    put: tuple[EnvVar, ...]


@dataclass(frozen=True, slots=True)
class RequestGpus:
    """Set requests and limits of nvidia.com/gpu of a container."""

    spot: ContainerPath
    count: int


@dataclass(frozen=True, slots=True)
class AddTolerations:
    """Tolerate NoSchedule taints with these keys, whatever their values."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddNodeSelector:
    """Allow only nodes with this label."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class AvoidNodes:
    """Allow no nodes with this label, whatever else the pod's spec says of its node."""

    key: str
    value: str


PodChange = DropAnnotation | SetScheduler | SetEnv | RequestGpus | AddTolerations | AddNodeSelector | AvoidNodes


class DenialReason(StrEnum):
    """Reason for a denial. Closed list: it labels the metric and begins the message."""

    FOREIGN_OUTPUT = "ForeignOutput"
    CLAIM_FIXED = "ClaimFixed"
    TWO_CLAIMS = "TwoClaims"
    CLAIM_UNNAMED = "ClaimUnnamed"
    """The annotation that should name its claim is empty."""
    NODE_CHOSEN = "NodeChosen"
    ENV_MISSING = "EnvMissing"
    UNCONFINED = "Unconfined"
    """Its containers could reach GPUs that are not theirs, whatever env they have."""
    LEASED_TOLERATED = "LeasedTolerated"
    """A pod without a claim would get to nodes whose GPUs are leased to others."""
    CLAIM_IMPOSSIBLE = "ClaimImpossible"
    CLAIM_HELD = "ClaimHeld"
    CLAIM_UNKNOWN = "ClaimUnknown"
    """The API server could not be asked about a claim. A later attempt may succeed."""
    MALFORMED = "Malformed"


@dataclass(frozen=True, slots=True)
class AdmissionAllowed:
    """Admitted with these changes. Warnings are shown to the client that made the request."""

    changes: tuple[PodChange, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AdmissionDenied:
    """Denied."""

    reason: DenialReason
    message: str


Judgement = AdmissionAllowed | AdmissionDenied

AS_IT_IS = AdmissionAllowed()
"""Admitted, unchanged."""
