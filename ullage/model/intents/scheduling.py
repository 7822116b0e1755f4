"""Intents of the scheduler and of claims."""

from dataclasses import dataclass

from ullage.model.allocation import Allocation
from ullage.model.claim import ClaimInUse
from ullage.model.device import MILLI_GPU
from ullage.model.dra import WithheldGpu
from ullage.model.fact_event import ObjectKey
from ullage.model.refusal import SchedulingFailure
from ullage.model.units import Milli
from ullage.model.vm import VmAmounts


@dataclass(frozen=True, slots=True)
class VolumeAssignment:
    """Assignment of an existing PersistentVolume to a PersistentVolumeClaim of the pod's namespace."""

    claim: str
    volume: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BindPod:
    """Bind this pod to a node with exactly these devices, if it has not changed since the decision."""

    pod: ObjectKey
    uid: str
    resource_version: str
    """Version of the pod that was decided on. It is the precondition of the bind: an earlier change of the pod wins."""
    node: str
    why: str
    devices: tuple[int, ...] = ()
    """Devices to be leased. Empty for pods without GPUs, and on nodes whose device plugin chooses."""
    milli: Milli = MILLI_GPU
    """Thousandths of each device."""
    visible: tuple[str, ...] = ()
    """UUIDs the containers are to see: of devices or of MIG instances."""
    volumes: tuple[str, ...] = ()
    """PersistentVolumeClaims of the pod's namespace that wait for their first consumer: bound before the pod is."""
    volume_assignments: tuple[VolumeAssignment, ...] = ()
    """Volumes that exist already, for claims among `volumes`. For the other claims a volume is made for the node."""
    approved: VmAmounts | None = None
    """First approval of a VM pod: written with the bind."""
    withheld: tuple[WithheldGpu, ...] = ()
    """Devices among `devices` that kube-scheduler could allocate too. They are withheld from it before the bind."""
    claim: ClaimInUse | None = None
    """Claim of the pod. It is protected against deletion before the bind."""

    @property
    def allocation(self) -> Allocation | None:
        return Allocation(self.node, self.devices) if self.devices else None

    @property
    def instances(self) -> tuple[str, ...]:
        """UUIDs of the MIG instances to be leased, in the order of `devices`; of whole devices and shares none."""
        return () if self.milli else self.visible


@dataclass(frozen=True, slots=True, kw_only=True)
class BindGang:
    """Bind these pods, all of one gang. None is bound before the devices of all are held."""

    gang: ObjectKey
    places: tuple[BindPod, ...]
    why: str
    beside: tuple[tuple[ObjectKey, str], ...] = ()
    """Bound members, each with its uid, where these pods alone are too few for a gang."""
    beside_needed: int = 0
    """Number of those that must still be there when these pods are bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """Pod to evict for one of higher priority."""

    pod: ObjectKey
    uid: str
    node: str
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt:
    """Nominate a node for this pod, and evict the victims by the Eviction API, which honours disruption budgets."""

    pod: ObjectKey
    uid: str
    node: str
    victims: tuple[Victim, ...]
    """The least important first. Empty where the pods in the way are leaving already."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictGang:
    """Evict every member of a gang that is on a node: part of a gang is of no use."""

    gang: ObjectKey
    victims: tuple[Victim, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkUnschedulable:
    """Write on this pod why it has no place, and the node nominated for it while other pods leave."""

    pod: ObjectKey
    uid: str
    why: SchedulingFailure
    nominated: str | None = None
    """Node to nominate; empty removes a nomination, None leaves it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateClaimFromTemplate:
    """Create a claim for this pod from this template."""

    pod: ObjectKey
    uid: str
    template: str
    template_uid: str
    generation: int
    """Generation of the template: templates with the same uid and generation are equal."""


SchedulingIntent = BindPod | BindGang | Preempt | EvictGang | MarkUnschedulable
ClaimIntent = CreateClaimFromTemplate
