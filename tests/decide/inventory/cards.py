"""GPUs as a look would see them: boards with switches, bridges and nothing."""

from collections.abc import Iterable, Mapping

from ullage.decide.inventory.sights import Card, FarEnd, Link, Sight, Vitals

GIB = 1 << 30


def bus(gpu: int) -> str:
    return f"00000000:{0x10 + gpu:02X}:00.0"


def a_card(gpu: int, links: Iterable[Link] = (), rate: int = 25, reaches: Iterable[int] = ()) -> Card:
    return Card(
        uuid=f"GPU-{gpu}",
        bus_id=bus(gpu),
        model="NVIDIA H100 80GB HBM3",
        memory=80 * GIB,
        links=tuple(links),
        link_rate=rate,
        reaches=tuple(bus(other) for other in reaches),
    )


def a_sight(gpu: int, vitals: Vitals | None = None, card: Card | None = None) -> Sight:
    return Sight(uuid=f"GPU-{gpu}", card=card or a_card(gpu), vitals=vitals or Vitals())


def switched(gpus: int, links: int, rate: int = 25) -> dict[int, Card]:
    """A board on which every link goes to a switch."""
    return {gpu: a_card(gpu, [Link(FarEnd.SWITCH)] * links, rate) for gpu in range(gpus)}


def wired(gpus: int, links: Mapping[tuple[int, int], int], rate: int = 25) -> dict[int, Card]:
    """GPUs with so many links between each two."""
    ends: dict[int, list[Link]] = {gpu: [] for gpu in range(gpus)}
    for (one, other), number in links.items():
        ends[one] += [Link(FarEnd.GPU, bus(other))] * number
        ends[other] += [Link(FarEnd.GPU, bus(one))] * number
    return {gpu: a_card(gpu, ends[gpu], rate) for gpu in range(gpus)}
