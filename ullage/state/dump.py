"""Cluster state as JSON and back, without loss: written by `ullage dump` and `ullage record`, read by a replay."""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec

from ullage.model.claim import Claim
from ullage.model.device import Inventory
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.dra import ResourceClaim, ResourceSlice
from ullage.model.fact_event import Added, ObjectKey, Synced
from ullage.model.gang import PodGroup
from ullage.model.lease import GpuLease
from ullage.model.namespace import Namespace
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.quota import Quota
from ullage.model.shape import interned
from ullage.model.units import Instant, Seconds
from ullage.model.vm import Vm, VmMigration
from ullage.model.vm_config import VmNodesDocument
from ullage.model.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from ullage.state.cluster import ClusterState

FORMAT = 2

_Keyed = (
    PodDisruptionBudget
    | Claim
    | Quota
    | PodGroup
    | PersistentVolumeClaim
    | ResourceClaim
    | ResourceSlice
    | Vm
    | VmMigration
    | VmNodesDocument
)


class StepVerb(Enum):
    """Kind of a recorded step."""

    CREATE = "create"
    CHANGE = "change"
    """The manifest is a merge patch."""
    DELETE = "delete"


class RecordedStep(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Something that users or machines did to the cluster after the dump was taken."""

    at: Seconds
    """Seconds since then."""
    verb: StepVerb
    object: dict[str, Any]
    """Manifest; of a delete, only what names the object."""
    at_once: bool = False
    """True for a delete without a grace period."""


class Dump(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """State of the cluster at one moment. Sorted, so that two dumps of one state are equal to the byte."""

    format: int
    taken_at: Instant
    synced: tuple[str, ...]
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    budgets: tuple[PodDisruptionBudget, ...]
    namespaces: tuple[Namespace, ...] = ()
    inventories: tuple[Inventory, ...] = ()
    claims: tuple[Claim, ...] = ()
    quotas: tuple[Quota, ...] = ()
    groups: tuple[PodGroup, ...] = ()
    volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    device_claims: tuple[ResourceClaim, ...] = ()
    device_slices: tuple[ResourceSlice, ...] = ()
    vms: tuple[Vm, ...] = ()
    vm_migrations: tuple[VmMigration, ...] = ()
    vm_nodes: tuple[VmNodesDocument, ...] = ()
    leases: tuple[GpuLease, ...] = ()
    vm_ledger: dict[str, Any] | None = None
    """Ledger of VM nodes, for people: it is computed again from the facts."""
    objects: tuple[dict[str, Any], ...] = ()
    """Manifests to go on from in a simulator, in an order in which each finds what it refers to."""
    steps: tuple[RecordedStep, ...] = ()
    """Steps from then on, in the order of time, if they were recorded."""
    recorded_seconds: Seconds | None = None
    """Length of the recording; None for a dump of one moment."""


def dump(
    state: ClusterState,
    *,
    now: Instant,
    objects: Sequence[dict[str, Any]] = (),
    vm_ledger: dict[str, Any] | None = None,
    steps: tuple[RecordedStep, ...] = (),
    recorded_seconds: Seconds | None = None,
) -> bytes:
    """The state as JSON, with the steps of a recording if there are any."""
    picture = Dump(
        format=FORMAT,
        taken_at=now,
        synced=tuple(sorted(state.synced)),
        nodes=tuple(state.nodes[name] for name in sorted(state.nodes)),
        pods=tuple(state.pods[key] for key in sorted(state.pods)),
        budgets=tuple(state.budgets[key] for key in sorted(state.budgets)),
        namespaces=tuple(state.namespaces[name] for name in sorted(state.namespaces)),
        inventories=tuple(state.inventories[node] for node in sorted(state.inventories)),
        claims=tuple(state.claims[key] for key in sorted(state.claims)),
        quotas=tuple(state.quotas[key] for key in sorted(state.quotas)),
        groups=tuple(state.groups[key] for key in sorted(state.groups)),
        volume_claims=tuple(state.volume_claims[key] for key in sorted(state.volume_claims)),
        volumes=tuple(state.volumes[name] for name in sorted(state.volumes)),
        storage_classes=tuple(state.storage_classes[name] for name in sorted(state.storage_classes)),
        device_claims=tuple(state.device_claims[key] for key in sorted(state.device_claims)),
        device_slices=tuple(state.device_slices[key] for key in sorted(state.device_slices)),
        vms=tuple(state.vms[key] for key in sorted(state.vms)),
        vm_migrations=tuple(state.vm_migrations[key] for key in sorted(state.vm_migrations)),
        vm_nodes=tuple(state.vm_nodes[key] for key in sorted(state.vm_nodes)),
        leases=tuple(state.leases[name] for name in sorted(state.leases)),
        vm_ledger=vm_ledger,
        objects=tuple(objects),
        steps=steps,
        recorded_seconds=recorded_seconds,
    )
    return msgspec.json.format(msgspec.json.encode(picture, order="deterministic"), indent=2)


def read_dump(text: bytes) -> Dump:
    """Decode a dump. Raises ValueError that names the bad field."""
    try:
        picture = msgspec.json.decode(text, type=Dump)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a dump: {error}") from error
    if picture.format != FORMAT:
        raise ValueError(f"not a dump of format {FORMAT}: format is {picture.format}")
    return picture


def load(text: bytes) -> tuple[ClusterState, Instant]:
    """The state that was dumped and its moment. Raises ValueError that names the bad field."""
    picture = read_dump(text)
    state = ClusterState()
    for pod in picture.pods:
        state.apply(Added(pod.key, msgspec.structs.replace(pod, shape=interned(pod.shape))))
    keyed: tuple[_Keyed, ...] = (
        *picture.budgets,
        *picture.claims,
        *picture.quotas,
        *picture.groups,
        *picture.volume_claims,
        *picture.device_claims,
        *picture.device_slices,
        *picture.vms,
        *picture.vm_migrations,
        *picture.vm_nodes,
    )
    for fact in keyed:
        state.apply(Added(fact.key, fact))
    named: tuple[Node | Namespace | PersistentVolume | StorageClass, ...] = (
        *picture.nodes,
        *picture.namespaces,
        *picture.volumes,
        *picture.storage_classes,
    )
    for one in named:
        state.apply(Added(ObjectKey("", one.name), one))
    for inventory in picture.inventories:
        state.apply(Added(ObjectKey("", inventory.node), inventory))
    for lease in picture.leases:
        state.apply(Added(ObjectKey("", lease.name), lease))
    for source in picture.synced:
        state.apply(Synced(source))
    return state, picture.taken_at
