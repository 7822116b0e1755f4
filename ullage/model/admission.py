"""Admission: what is asked of the webhook, and what it answers. Nouns only; judging is `decide.admit`'s.

A pod is seen here as a user wrote it: its containers with their env, not what placement makes of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from ullage.model.allocation import ALLOCATED, CLAIM, CLAIM_TEMPLATE, SHARE, VISIBLE_DEVICES, VISIBLE_INDICES
from ullage.model.event import ObjectKey

UNSETTLED_BIND = "gpu.scheduling/unsettled-bind"
"""Written by the scheduler on a pod whose bind got no answer."""

OUTPUTS = (ALLOCATED, SHARE, UNSETTLED_BIND, VISIBLE_DEVICES, VISIBLE_INDICES)
"""Annotations only the scheduler may write: they say who has which GPU. Sorted."""

INPUTS = (CLAIM, CLAIM_TEMPLATE)
"""Annotations a user writes, once: at the pod's creation."""

LEASED_TAINT = "gpu.scheduling/leased"
"""Keeps pods that other schedulers place off nodes whose GPUs are leased."""

Annotations = Mapping[str, str]


class Role(StrEnum):
    """What a container is for."""

    INIT = "init"
    SIDECAR = "sidecar"
    """An init container that stays."""
    APP = "app"
    EPHEMERAL = "ephemeral"


class Spot(msgspec.Struct, frozen=True, gc=False):
    """Where a container is found in its pod: the list its role is in, and the place there."""

    role: Role
    index: int


class EnvVar(msgspec.Struct, frozen=True, gc=False):
    """A variable: a literal `value`, or the value of an `annotation` of the pod. One that is neither is foreign."""

    name: str
    value: str | None = None
    annotation: str | None = None


class AskedContainer(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One container as it was asked for."""

    spot: Spot
    name: str
    env: tuple[EnvVar, ...] = ()
    gpus_milli: int = 0
    """nvidia.com/gpu in thousandths: the larger of its request and its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPod:
    """A pod as it was asked for."""

    key: ObjectKey
    annotations: Annotations = field(default_factory=dict)
    scheduler: str = ""
    node: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerated: tuple[str, ...] = ()
    """Keys of taints it tolerates with every value and effect NoSchedule; an empty one stands for all keys."""
    containers: tuple[AskedContainer, ...] = ()
    """Init containers and sidecars in their order, then the others."""

    @property
    def claim(self) -> str:
        """The claim or template it names; empty where none."""
        return self.annotations.get(CLAIM) or self.annotations.get(CLAIM_TEMPLATE) or ""


@dataclass(frozen=True, slots=True)
class DropAnnotation:
    key: str


@dataclass(frozen=True, slots=True)
class SetScheduler:
    name: str


@dataclass(frozen=True, slots=True)
class SetEnv:
    """Take these entries (by their place) out of a container's env, and put these first."""

    spot: Spot
    drop: tuple[int, ...]
    put: tuple[EnvVar, ...]


@dataclass(frozen=True, slots=True)
class RequestGpus:
    """Requests and limits of nvidia.com/gpu of a container."""

    spot: Spot
    count: int


@dataclass(frozen=True, slots=True)
class Tolerate:
    """A NoSchedule taint with this key, whatever its value."""

    key: str


@dataclass(frozen=True, slots=True)
class SelectNodes:
    """Only nodes with this label."""

    key: str
    value: str


PodChange = DropAnnotation | SetScheduler | SetEnv | RequestGpus | Tolerate | SelectNodes


class Objection(StrEnum):
    """Why something is not let in. The closed list: it labels the metric and begins the message."""

    FOREIGN_OUTPUT = "ForeignOutput"
    CLAIM_FIXED = "ClaimFixed"
    TWO_CLAIMS = "TwoClaims"
    NODE_CHOSEN = "NodeChosen"
    ENV_MISSING = "EnvMissing"
    CLAIM_IMPOSSIBLE = "ClaimImpossible"
    CLAIM_HELD = "ClaimHeld"
    CLAIM_UNKNOWN = "ClaimUnknown"
    """The API server could not be asked about a claim: time helps."""
    MALFORMED = "Malformed"


@dataclass(frozen=True, slots=True)
class Admitted:
    """Let in, with these changes. Warnings are shown to whoever asked."""

    changes: tuple[PodChange, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Not let in."""

    objection: Objection
    message: str


Judgement = Admitted | Refused

AS_IT_IS = Admitted()
"""Let in, unchanged."""
