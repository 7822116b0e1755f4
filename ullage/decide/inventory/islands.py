"""Islands from NVLinks: sets of GPUs that are all linked to each other, and their bandwidth.

A GPU without NVLink peers is in no island, whatever PCIe switch it shares: PCIe peer traffic gives no guarantee.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ullage.decide.inventory.gpu_readings import GpuInfo, NvlinkPeerType


@dataclass(frozen=True, slots=True)
class IslandPosition:
    """Island of a GPU. Empty and 0 where it has no island."""

    island: str = ""
    bandwidth: int = 0
    peers: tuple[int, ...] = ()
    """GPUs it is linked to, in its island or not."""


def places(cards: Mapping[int, GpuInfo]) -> dict[int, IslandPosition]:
    """Island of each GPU, by id. An island is named after its lowest id: no other island can get that name."""
    rates = _rates(cards)
    peers = {gpu: tuple(sorted(other for other in cards if _pair(gpu, other) in rates)) for gpu in cards}
    found = {gpu: IslandPosition(peers=peers[gpu]) for gpu in cards}
    for island in _cliques(sorted(cards), rates):
        rate = min(rates[_pair(*pair)] for pair in combinations(island, 2))
        for gpu in island:
            found[gpu] = IslandPosition(f"nvlink-{island[0]}", rate, peers[gpu])
    return found


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


def _rates(cards: Mapping[int, GpuInfo]) -> dict[tuple[int, int], int]:
    """GB/s between each two GPUs that are linked."""
    return {
        (one, other): rate for one, other in combinations(sorted(cards), 2) if (rate := _rate(cards[one], cards[other]))
    }


def _rate(one: GpuInfo, other: GpuInfo) -> int:
    """GB/s between two GPUs: the smaller total of their links to switches, else the links between the two."""
    switched = min(_switched(one), _switched(other))
    if switched:
        return switched
    return max(_direct(one, other), _direct(other, one)) or _said(one, other) or _said(other, one)


def _switched(card: GpuInfo) -> int:
    return sum(link.far is NvlinkPeerType.SWITCH for link in card.links) * card.link_rate


def _direct(card: GpuInfo, other: GpuInfo) -> int:
    return sum(link.far is NvlinkPeerType.GPU and link.bus_id == other.bus_id for link in card.links) * card.link_rate


def _said(card: GpuInfo, other: GpuInfo) -> int:
    """GB/s by NVML's word on peer access. A fabric that hides its ends is switched: all such links reach each GPU."""
    hidden = sum(link.far is NvlinkPeerType.UNKNOWN for link in card.links)
    return hidden * card.link_rate if other.bus_id in card.reaches else 0


def _cliques(gpus: Sequence[int], rates: Mapping[tuple[int, int], int]) -> list[tuple[int, ...]]:
    """Disjoint sets of GPUs all linked to each other, the largest first, ties to the fastest, then the lowest ids."""
    left, islands = list(gpus), []
    while len(island := _largest_clique(left, rates)) > 1:
        islands.append(island)
        left = [gpu for gpu in left if gpu not in island]
    return islands


def _largest_clique(gpus: Sequence[int], rates: Mapping[tuple[int, int], int]) -> tuple[int, ...]:
    """All sets are tried, grown one GPU at a time in order of ids: a node has at most sixteen."""
    if all(pair in rates for pair in combinations(gpus, 2)):
        return tuple(gpus)
    grown: list[tuple[int, ...]] = [(gpu,) for gpu in gpus]
    best: list[tuple[int, ...]] = grown
    while grown:
        best = grown
        grown = [
            (*clique, gpu)
            for clique in best
            for gpu in gpus
            if gpu > clique[-1] and all(_pair(gpu, member) in rates for member in clique)
        ]
    return min(best, key=lambda clique: (-_speed(clique, rates), clique), default=())


def _speed(clique: tuple[int, ...], rates: Mapping[tuple[int, int], int]) -> int:
    return min((rates[_pair(*pair)] for pair in combinations(clique, 2)), default=0)
