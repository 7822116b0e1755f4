"""Metadata of every object: names, owners, conditions."""

from typing import Protocol

from msgspec import field

from ullage.kube.objects import KubeStruct

Labels = dict[str, str]


class OwnerReference(KubeStruct, frozen=True, gc=False, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(KubeStruct, frozen=True, gc=False, kw_only=True):
    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Labels = {}
    annotations: Labels = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class HasMeta(Protocol):
    """Any struct of a whole object."""

    @property
    def metadata(self) -> ObjectMeta: ...


class Condition(KubeStruct, frozen=True, gc=False, kw_only=True):
    """One condition; the shape is shared by nodes, pods, workloads, budgets and our own kinds."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None


class LabelSelectorRequirement(KubeStruct, frozen=True, gc=False, kw_only=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(KubeStruct, frozen=True, gc=False, kw_only=True):
    match_labels: Labels = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class PartialObject(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Any object, with its metadata only: for readers that need its existence and its owners."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
