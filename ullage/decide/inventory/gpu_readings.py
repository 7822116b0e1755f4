"""GPU readings: frozen records of one scan of a node's GPUs, before anything is concluded. Made by GpuReaders."""

from dataclasses import dataclass
from enum import StrEnum

from ullage.model.device import MigInstance
from ullage.model.units import Bytes


class NvlinkPeerType(StrEnum):
    """Device at the other end of an NVLink."""

    GPU = "gpu"
    SWITCH = "switch"
    UNKNOWN = "unknown"
    """Not reported by the driver: NVML's answer on peer access decides."""


@dataclass(frozen=True, slots=True)
class Nvlink:
    """An active NVLink."""

    far: NvlinkPeerType
    bus_id: str = ""
    """PCI bus id of the other end, if it is a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInfo:
    """Fields of a GPU that rarely change."""

    uuid: str
    bus_id: str
    model: str
    memory: Bytes
    """Bytes."""
    links: tuple[Nvlink, ...] = ()
    link_rate: int = 0
    """GB/s of one link, one direction."""
    reaches: tuple[str, ...] = ()
    """Bus ids of GPUs that NVML says it reaches by NVLink; asked only where a link does not name its other end."""
    partitioned: bool = False
    """MIG is on: the GPU is not given whole, even while it has no instances."""
    mig: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuErrorCounters:
    """Error counters of a GPU. None where the GPU does not count."""

    uncorrected_now: int | None = None
    """ECC errors since the driver was loaded."""
    uncorrected_ever: int | None = None
    retired_pages: int | None = None
    retirement_pending: bool = False
    remap_pending: bool = False
    remap_failed: bool = False


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on a GPU."""

    pid: int
    memory: Bytes = Bytes(0)
    """Bytes; 0 where the driver does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """Fields of a GPU that change all the time."""

    counters: GpuErrorCounters = GpuErrorCounters()
    utilisation: int | None = None
    """Percent of the last sampling period in which anything ran; None where the GPU does not report it."""
    memory_used: Bytes | None = None
    processes: tuple[GpuProcess, ...] = ()
    fabric: str = ""
    """Problem of the NVLink fabric the GPU is registered with; empty where it is up, or there is none."""


class GpuReadError(StrEnum):
    """Reasons that a GPU could not be read."""

    LOST = "lost"
    """The GPU fell off the bus."""
    RESET_REQUIRED = "reset-required"
    SILENT = "silent"
    """The driver did not answer in time."""
    MISSING = "missing"
    """The GPU was there, and the driver no longer lists it."""
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """Reading of one GPU, as far as it could be read."""

    uuid: str
    """UUID, or for a GPU that has never reported one any text that tells it from the others."""
    card: GpuInfo | None = None
    """None where it could not be read, or did not have to be: then the last known GpuInfo counts."""
    vitals: GpuSample | None = None
    trouble: GpuReadError | None = None
    detail: str = ""
    """The driver's error text."""


@dataclass(frozen=True, slots=True)
class GpuScan:
    """Readings of all GPUs at one moment, in PCI bus order."""

    readings: tuple[GpuReading, ...] = ()
    trouble: str = ""
    """Reason that the driver as a whole could not be asked; then nothing is known of any GPU."""
    silent: bool = False
    """The driver did not answer in time."""
