"""GPUs as a look would see them: boards with switches, bridges and nothing."""

from collections.abc import Iterable, Mapping

from ullage.decide.inventory.gpu_readings import GpuInfo, GpuReading, GpuSample, Nvlink, NvlinkPeerType
from ullage.model.units import Bytes

GIB = 1 << 30


def bus(gpu: int) -> str:
    return f"00000000:{0x10 + gpu:02X}:00.0"


def a_card(gpu: int, links: Iterable[Nvlink] = (), rate: int = 25, reaches: Iterable[int] = ()) -> GpuInfo:
    return GpuInfo(
        uuid=f"GPU-{gpu}",
        bus_id=bus(gpu),
        model="NVIDIA H100 80GB HBM3",
        memory=Bytes(80 * GIB),
        links=tuple(links),
        link_rate=rate,
        reaches=tuple(bus(other) for other in reaches),
    )


def a_sight(gpu: int, vitals: GpuSample | None = None, card: GpuInfo | None = None) -> GpuReading:
    return GpuReading(uuid=f"GPU-{gpu}", card=card or a_card(gpu), vitals=vitals or GpuSample())


def switched(gpus: int, links: int, rate: int = 25) -> dict[int, GpuInfo]:
    """A board on which every link goes to a switch."""
    return {gpu: a_card(gpu, [Nvlink(NvlinkPeerType.SWITCH)] * links, rate) for gpu in range(gpus)}


def wired(gpus: int, links: Mapping[tuple[int, int], int], rate: int = 25) -> dict[int, GpuInfo]:
    """GPUs with so many links between each two."""
    ends: dict[int, list[Nvlink]] = {gpu: [] for gpu in range(gpus)}
    for (one, other), number in links.items():
        ends[one] += [Nvlink(NvlinkPeerType.GPU, bus(other))] * number
        ends[other] += [Nvlink(NvlinkPeerType.GPU, bus(one))] * number
    return {gpu: a_card(gpu, ends[gpu], rate) for gpu in range(gpus)}
