"""Simulated GPUs: boards by name, for clusters without hardware and for tests."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ullage.agent.gpu_reader import OnXid
from ullage.decide.inventory.gpu_readings import (
    GpuErrorCounters,
    GpuInfo,
    GpuProcess,
    GpuReadError,
    GpuReading,
    GpuSample,
    GpuScan,
    Nvlink,
    NvlinkPeerType,
)
from ullage.errors import UserError
from ullage.model.device import MOST_DEVICES, MigInstance
from ullage.model.units import Bytes

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class GpuProduct:
    """A GPU as its driver names it, and how several of it are wired on one board."""

    name: str
    mib: int
    links: int = 0
    """To switches; or, in groups, between each two of a group."""
    rate: int = 25
    group: int = 0
    """GPUs that are linked without a switch; 0 where there are switches."""


PRODUCTS: Mapping[str, GpuProduct] = {
    "B200-SXM": GpuProduct("NVIDIA B200", 183359, links=18, rate=50),
    "H200-SXM": GpuProduct("NVIDIA H200", 143771, links=18),
    "H100-SXM": GpuProduct("NVIDIA H100 80GB HBM3", 81559, links=18),
    "H100-NVL": GpuProduct("NVIDIA H100 NVL", 95830, links=12, group=2),
    "H100-PCIe": GpuProduct("NVIDIA H100 PCIe", 81559),
    "A100-SXM": GpuProduct("NVIDIA A100-SXM4-80GB", 81920, links=12),
    "A100-PCIe": GpuProduct("NVIDIA A100 80GB PCIe", 81920),
    "V100-SXM": GpuProduct("Tesla V100-SXM2-32GB", 32768, links=1, group=4),
    "A10G": GpuProduct("NVIDIA A10G", 23028),
    "L4": GpuProduct("NVIDIA L4", 23034),
    "L40S": GpuProduct("NVIDIA L40S", 46068),
    "T4": GpuProduct("Tesla T4", 15360),
}

_SHORT = {"B200": "B200-SXM", "H200": "H200-SXM", "H100": "H100-SXM", "A100": "A100-SXM", "V100": "V100-SXM"}
_ILL = re.compile(r"ill=(?P<gpu>[0-9]{1,3})")
_MIG = re.compile(r"mig=(?P<gpu>[0-9]{1,3}):(?P<slices>[1-7])g\.(?P<gb>[0-9]{1,3})gb(?:\*(?P<times>[1-7]))?")
MIG_SLICES = 7
_MIG_ROUNDING_MIB = 8 << 10
"""Names of profiles round memory up."""
_WORD = re.compile(r"(?:(?P<count>[0-9]+)[xX])?(?P<name>[A-Za-z0-9-]+)")


@dataclass(frozen=True, slots=True)
class SimulatedGpuSet:
    """A number of GPUs of one product."""

    count: int
    product: GpuProduct
    mig: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Profiles of the MIG instances of each GPU that is parted."""
    ill: frozenset[int] = frozenset()
    """GPUs with uncorrected memory errors."""


def read_gpu_set(text: str, flag: str = "--simulate") -> SimulatedGpuSet:
    """`8xH100-SXM`, `4xA100-PCIe`, `L4`; with parts after commas: `8xH100,mig=7:1g.10gb*7,ill=3`.

    Raises UserError, which names the flag.
    """
    name, *parts = text.split(",")
    said = _WORD.fullmatch(name)
    names = {name.upper(): name for name in PRODUCTS} | _SHORT
    product = names.get(said["name"].upper()) if said is not None else None
    count = int(said["count"] or 1) if said is not None else 0
    if product is None or not 1 <= count <= MOST_DEVICES:
        known = ", ".join(sorted(PRODUCTS))
        raise UserError(f"{flag} {text}: expected 1 to {MOST_DEVICES} of a known GPU, such as 8xH100-SXM ({known})")
    found = SimulatedGpuSet(count, PRODUCTS[product])
    for part in parts:
        found = _with_part(found, part, f"{flag} {text}")
    return found


def _with_part(gpus: SimulatedGpuSet, part: str, where: str) -> SimulatedGpuSet:
    if said := _ILL.fullmatch(part):
        return replace(gpus, ill=gpus.ill | {_gpu(said["gpu"], gpus, where)})
    if (said := _MIG.fullmatch(part)) is None:
        raise UserError(
            f"{where}: {part!r} is no part; expected mig=GPU:PROFILE[*N], such as mig=7:1g.10gb*7, or ill=GPU"
        )
    gpu, profile = _gpu(said["gpu"], gpus, where), f"{said['slices']}g.{said['gb']}gb"
    profiles = (*gpus.mig.get(gpu, ()), *([profile] * int(said["times"] or 1)))
    slices = sum(int(one.partition("g.")[0]) for one in profiles)
    memory = sum(_profile_bytes(one) for one in profiles)
    if slices > MIG_SLICES or memory > (gpus.product.mib + _MIG_ROUNDING_MIB) * MIB:
        raise UserError(
            f"{where}: GPU {gpu} cannot be parted so; a GPU has {MIG_SLICES} slices and {gpus.product.mib >> 10} GiB"
        )
    return replace(gpus, mig={**gpus.mig, gpu: profiles})


def _gpu(text: str, gpus: SimulatedGpuSet, where: str) -> int:
    if int(text) >= gpus.count:
        raise UserError(f"{where}: there is no GPU {text}; they are numbered 0 to {gpus.count - 1}")
    return int(text)


def _profile_bytes(profile: str) -> int:
    return int(profile.partition(".")[2].removesuffix("gb")) << 30


class SimulatedReader:
    """A GpuReader over a board; the caller decides what happens to its GPUs."""

    def __init__(self, gpu_set: SimulatedGpuSet, node: str) -> None:
        """UUIDs are made from the node's name: the same each time, and no two nodes share one."""
        self.vitals = [
            GpuSample(counters=GpuErrorCounters(uncorrected_now=0), utilisation=0, memory_used=Bytes(0))
        ] * gpu_set.count
        self.troubles: dict[int, GpuReadError] = {}
        self.hangs = False
        """The driver as a whole does not answer."""
        self._cards = [_card(gpu_set, node, gpu) for gpu in range(gpu_set.count)]
        self._on_xid: OnXid = lambda _uuid, _xid: None
        for gpu in sorted(gpu_set.ill):
            self.vitals[gpu] = replace(self.vitals[gpu], counters=GpuErrorCounters(uncorrected_now=1))

    async def look(self, *, thorough: bool) -> GpuScan:
        if self.hangs:
            return GpuScan(trouble="the driver gives no answer", silent=True)
        return GpuScan(tuple(self._see(gpu, thorough) for gpu in range(len(self._cards))))

    def listen(self, on_xid: OnXid) -> None:
        self._on_xid = on_xid

    async def close(self) -> None:
        return None

    def runs(self, gpu: int, *pids: int, utilisation: int = 0) -> None:
        """Put these processes on the GPU, and no others."""
        processes = tuple(GpuProcess(pid) for pid in pids)
        self.vitals[gpu] = replace(self.vitals[gpu], processes=processes, utilisation=utilisation)

    def dies(self, gpu: int) -> None:
        """Let the GPU fall off the bus, and report its Xid."""
        self.troubles[gpu] = GpuReadError.LOST
        self._on_xid(self._cards[gpu].uuid, 79)

    def _see(self, gpu: int, thorough: bool) -> GpuReading:
        card = self._cards[gpu]
        if gpu in self.troubles:
            return GpuReading(uuid=card.uuid, trouble=self.troubles[gpu])
        return GpuReading(uuid=card.uuid, card=card if thorough else None, vitals=self.vitals[gpu])


def _card(gpu_set: SimulatedGpuSet, node: str, gpu: int) -> GpuInfo:
    product = gpu_set.product
    return GpuInfo(
        uuid=f"GPU-{node}-{gpu}",
        bus_id=_bus(gpu),
        model=product.name,
        memory=Bytes(product.mib * MIB),
        links=tuple(_links(gpu_set, gpu)),
        link_rate=product.rate if product.links else 0,
        partitioned=gpu in gpu_set.mig,
        mig=tuple(
            MigInstance(f"MIG-{node}-{gpu}-{number}", profile, Bytes(_profile_bytes(profile)))
            for number, profile in enumerate(gpu_set.mig.get(gpu, ()))
        ),
    )


def _bus(gpu: int) -> str:
    return f"00000000:{gpu + 1:02X}:00.0"


def _links(gpu_set: SimulatedGpuSet, gpu: int) -> list[Nvlink]:
    product = gpu_set.product
    if not product.group:
        return [Nvlink(NvlinkPeerType.SWITCH)] * product.links if gpu_set.count > 1 else []
    group = range(gpu - gpu % product.group, min(gpu - gpu % product.group + product.group, gpu_set.count))
    return [Nvlink(NvlinkPeerType.GPU, _bus(other)) for other in group if other != gpu for _ in range(product.links)]
