"""What one look at a node's GPUs saw, before anything is made of it. Frozen records; whoever reads GPUs makes them."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.device import MigSlice


class FarEnd(StrEnum):
    """What is at the other end of an NVLink."""

    GPU = "gpu"
    SWITCH = "switch"
    UNKNOWN = "unknown"
    """The driver does not say: NVML's word on peer access decides."""


@dataclass(frozen=True, slots=True)
class Link:
    """An active NVLink."""

    far: FarEnd
    bus_id: str = ""
    """Where the other end sits, if it is a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What of a GPU rarely changes."""

    uuid: str
    bus_id: str
    model: str
    memory: int
    """Bytes."""
    links: tuple[Link, ...] = ()
    link_rate: int = 0
    """GB/s of one link, one direction."""
    reaches: tuple[str, ...] = ()
    """Bus ids of GPUs the driver says it reaches by NVLink; asked only where a link does not say where it leads."""
    partitioned: bool = False
    """MIG is on: it is not given whole, even while it has no instances."""
    mig: tuple[MigSlice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a GPU counts of its own faults. None where it does not count."""

    uncorrected_now: int | None = None
    """ECC errors since the driver was loaded."""
    uncorrected_ever: int | None = None
    retired_pages: int | None = None
    retirement_pending: bool = False
    remap_pending: bool = False
    remap_failed: bool = False


@dataclass(frozen=True, slots=True)
class Process:
    """Something that runs on a GPU."""

    pid: int
    memory: int = 0
    """Bytes; 0 where the driver does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What of a GPU changes all the time."""

    counters: Counters = Counters()
    utilisation: int | None = None
    """Percent of the last moment in which anything ran; None where the GPU does not say."""
    memory_used: int | None = None
    processes: tuple[Process, ...] = ()
    fabric: str = ""
    """What is wrong with the NVLink fabric it is registered with; empty where it is up, or there is none."""


class Trouble(StrEnum):
    """Why a GPU could not be read."""

    LOST = "lost"
    """It fell off the bus."""
    RESET_REQUIRED = "reset-required"
    SILENT = "silent"
    """The driver did not answer in time."""
    MISSING = "missing"
    """It was there, and the driver no longer lists it."""
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One GPU, as far as it could be seen."""

    uuid: str
    """Or, of one that has not even said that, any text that tells it from the others."""
    card: Card | None = None
    """None where it could not be read, or did not have to be: then what was known counts."""
    vitals: Vitals | None = None
    trouble: Trouble | None = None
    detail: str = ""
    """What the driver said."""


@dataclass(frozen=True, slots=True)
class Look:
    """Everything seen at one moment, in PCI bus order."""

    sights: tuple[Sight, ...] = ()
    trouble: str = ""
    """Why the driver as a whole could not be asked; then nothing is known of any GPU."""
    silent: bool = False
    """The trouble is that it did not answer."""
