"""One GPU as NVML reports it: its GpuInfo and its GpuSample. Blocking calls; the caller bounds their time."""

import ctypes
from collections.abc import Iterator, Sequence

from ullage.agent.nvml.library import Handle, Nvml, optional, text
from ullage.decide.inventory.gpu_readings import (
    GpuErrorCounters,
    GpuInfo,
    GpuProcess,
    GpuSample,
    Nvlink,
    NvlinkPeerType,
)
from ullage.model.device import MigInstance
from ullage.model.units import Bytes

MIB = 1 << 20
GIB = 1 << 30
_LONGEST_PROFILE = 64


def bus_id(nvml: Nvml, handle: Handle) -> str:
    """PCI bus id of the GPU, spelled as its peers' links name it."""
    return text(nvml.nvmlDeviceGetPciInfo(handle).busId).upper()


def read_card(nvml: Nvml, handle: Handle, others: Sequence[tuple[str, Handle]]) -> GpuInfo:
    """Read the fields that rarely change. `others` are the bus ids and handles of the other GPUs."""
    links = tuple(_links(nvml, handle))
    hidden = any(link.far is NvlinkPeerType.UNKNOWN for link in links)
    mode = optional(nvml, nvml.nvmlDeviceGetMigMode, handle)
    partitioned = mode is not None and bool(mode[0])
    return GpuInfo(
        uuid=text(nvml.nvmlDeviceGetUUID(handle)),
        bus_id=bus_id(nvml, handle),
        model=text(nvml.nvmlDeviceGetName(handle)),
        memory=Bytes(int(nvml.nvmlDeviceGetMemoryInfo(handle).total)),
        links=links,
        link_rate=_link_rate(nvml, handle) if links else 0,
        reaches=tuple(bus for bus, other in others if _reaches(nvml, handle, other)) if hidden else (),
        partitioned=partitioned,
        mig=tuple(_parts(nvml, handle)) if partitioned else (),
    )


def _links(nvml: Nvml, handle: Handle) -> Iterator[Nvlink]:
    """Active links. A link that does not exist is reported as not supported, or as an invalid argument."""
    for number in range(nvml.NVML_NVLINK_MAX_LINKS):
        if optional(nvml, nvml.nvmlDeviceGetNvLinkState, handle, number):
            yield _link(nvml, handle, number)


def _link(nvml: Nvml, handle: Handle, number: int) -> Nvlink:
    kind = optional(nvml, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, number)
    if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return Nvlink(NvlinkPeerType.SWITCH)
    far = optional(nvml, nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, number)
    if kind == nvml.NVML_NVLINK_DEVICE_TYPE_GPU and far is not None:
        return Nvlink(NvlinkPeerType.GPU, text(far.busId).upper())
    return Nvlink(NvlinkPeerType.UNKNOWN)


def _link_rate(nvml: Nvml, handle: Handle) -> int:
    """GB/s of one link in one direction, by the GPU's generation: what the makers' data sheets count with."""
    rates = {
        nvml.NVML_DEVICE_ARCH_PASCAL: 20,
        nvml.NVML_DEVICE_ARCH_VOLTA: 25,
        nvml.NVML_DEVICE_ARCH_TURING: 25,
        nvml.NVML_DEVICE_ARCH_AMPERE: 25,
        nvml.NVML_DEVICE_ARCH_ADA: 25,
        nvml.NVML_DEVICE_ARCH_HOPPER: 25,
    }
    # Later generations have at least the rate of the fifth.
    return rates.get(optional(nvml, nvml.nvmlDeviceGetArchitecture, handle), 50)


def _reaches(nvml: Nvml, handle: Handle, other: Handle) -> bool:
    status = optional(nvml, nvml.nvmlDeviceGetP2PStatus, handle, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
    return bool(status == nvml.NVML_P2P_STATUS_OK)


def _parts(nvml: Nvml, handle: Handle) -> Iterator[MigInstance]:
    for part in _part_handles(nvml, handle):
        size = int(nvml.nvmlDeviceGetMemoryInfo(part).total)
        yield MigInstance(text(nvml.nvmlDeviceGetUUID(part)), _profile(nvml, part, size), Bytes(size))


def _part_handles(nvml: Nvml, handle: Handle) -> Iterator[Handle]:
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        part = optional(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        if part is not None:
            yield part


def _profile(nvml: Nvml, part: Handle, memory: int) -> str:
    """`1g.10gb`: the end of the instance's name, or made up from its size."""
    _, said, profile = text(nvml.nvmlDeviceGetName(part)).rpartition("MIG ")
    if said:
        return profile[:_LONGEST_PROFILE]
    sizes = optional(nvml, nvml.nvmlDeviceGetAttributes, part)
    slices = f"{sizes.gpuInstanceSliceCount}g." if sizes is not None else ""
    return f"{slices}{-(-memory // GIB)}gb"


def read_vitals(nvml: Nvml, handle: Handle) -> GpuSample:
    """Read the fields that change all the time."""
    rates = optional(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    return GpuSample(
        counters=_counters(nvml, handle),
        utilisation=None if rates is None else int(rates.gpu),
        memory_used=Bytes(int(nvml.nvmlDeviceGetMemoryInfo(handle).used)),
        processes=_processes(nvml, handle),
        fabric=_fabric(nvml, handle),
    )


def _fabric(nvml: Nvml, handle: Handle) -> str:
    """Problem of the NVLink fabric; empty if there is none. Only GPUs from Hopper on register with a fabric."""
    about = nvml.c_nvmlGpuFabricInfo_v2_t()
    if optional(nvml, nvml.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(about)) is None:
        return ""
    words = {
        nvml.NVML_GPU_FABRIC_STATE_NOT_STARTED: "not started",
        nvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS: "still starting",
    }
    failed = about.state == nvml.NVML_GPU_FABRIC_STATE_COMPLETED and about.status != nvml.NVML_SUCCESS
    return f"failed with NVML error {about.status}" if failed else words.get(about.state, "")


def _counters(nvml: Nvml, handle: Handle) -> GpuErrorCounters:
    rows = optional(nvml, nvml.nvmlDeviceGetRemappedRows, handle)
    return GpuErrorCounters(
        uncorrected_now=_uncorrected(nvml, handle, nvml.NVML_VOLATILE_ECC),
        uncorrected_ever=_uncorrected(nvml, handle, nvml.NVML_AGGREGATE_ECC),
        retired_pages=_retired(nvml, handle),
        retirement_pending=bool(optional(nvml, nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)),
        remap_pending=rows is not None and bool(rows[2]),
        remap_failed=rows is not None and bool(rows[3]),
    )


def _uncorrected(nvml: Nvml, handle: Handle, window: int) -> int | None:
    """Total of uncorrected ECC errors; summed by location where the driver no longer has a total."""
    kind = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    total = optional(nvml, nvml.nvmlDeviceGetTotalEccErrors, handle, kind, window)
    if total is not None:
        return int(total)
    places = (nvml.NVML_MEMORY_LOCATION_DEVICE_MEMORY, nvml.NVML_MEMORY_LOCATION_SRAM)
    found = [optional(nvml, nvml.nvmlDeviceGetMemoryErrorCounter, handle, kind, window, place) for place in places]
    counted = [count for count in found if count is not None]
    return sum(counted) if counted else None


def _retired(nvml: Nvml, handle: Handle) -> int | None:
    causes = (
        nvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
        nvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
    )
    found = [optional(nvml, nvml.nvmlDeviceGetRetiredPages, handle, cause) for cause in causes]
    counted = [len(pages) for pages in found if pages is not None]
    return sum(counted) if counted else None


def _processes(nvml: Nvml, handle: Handle) -> tuple[GpuProcess, ...]:
    """Processes of compute, graphics and MPS; one that is in several lists counts once."""
    lists = (
        nvml.nvmlDeviceGetComputeRunningProcesses,
        nvml.nvmlDeviceGetGraphicsRunningProcesses,
        nvml.nvmlDeviceGetMPSComputeRunningProcesses,
    )
    found: dict[int, int] = {}
    for ask in lists:
        for process in optional(nvml, ask, handle) or ():
            pid = int(process.pid)
            found[pid] = max(found.get(pid, 0), int(process.usedGpuMemory or 0))
    return tuple(GpuProcess(pid, Bytes(memory)) for pid, memory in sorted(found.items()))
