"""Every intent there is. Frozen; each says why. Performing one is `act`'s business, choosing one is `decide`'s."""

from dataclasses import dataclass

from ullage.model.allocation import Allocation
from ullage.model.device import MILLI_GPU
from ullage.model.event import ObjectKey


@dataclass(frozen=True, slots=True)
class VolumePromise:
    """This PersistentVolume, which is there already, is for that claim of the pod's namespace."""

    claim: str
    volume: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Bind this very pod, as it was when it was decided on, to a node, with exactly these devices."""

    pod: ObjectKey
    uid: str
    resource_version: str
    """As decided on: whatever changes the pod first, wins."""
    node: str
    why: str
    devices: tuple[int, ...] = ()
    """To be leased. Empty for pods without GPUs, and on nodes whose device plugin chooses."""
    milli: int = MILLI_GPU
    """How much of each device."""
    visible: tuple[str, ...] = ()
    """What the containers are to see: UUIDs of devices or of MIG instances."""
    volumes: tuple[str, ...] = ()
    """PersistentVolumeClaims of the pod's namespace that wait for their first consumer: bound before the pod is."""
    promises: tuple[VolumePromise, ...] = ()
    """Those of them that get a volume that is there already; for the others one is made for the node."""

    @property
    def allocation(self) -> Allocation | None:
        return Allocation(self.node, self.devices) if self.devices else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceGang:
    """Bind these pods, all of one gang. None is bound before the devices of all are held."""

    gang: ObjectKey
    places: tuple[Place, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """This very pod is to make room for one of higher priority."""

    pod: ObjectKey
    uid: str
    node: str
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt:
    """Nominate a node for this very pod, and evict these others: by the Eviction API, which keeps to their budgets."""

    pod: ObjectKey
    uid: str
    node: str
    victims: tuple[Victim, ...]
    """The least important first. None where those who are in the way are leaving already."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictGang:
    """Evict every member of a gang that is on a node: part of it is of no use to anybody."""

    gang: ObjectKey
    victims: tuple[Victim, ...]
    why: str
