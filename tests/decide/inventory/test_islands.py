"""From links to islands: switches, bridges, meshes, broken links, and ends nobody names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decide.inventory.cards import a_card, switched, wired
from ullage.decide.inventory.gpu_readings import GpuInfo, Nvlink, NvlinkPeerType
from ullage.decide.inventory.islands import places

CUBE_MESH = {(0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2, (0, 4): 2, (1, 5): 2, (2, 6): 1,
             (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2}  # fmt: skip
FOUR = {(0, 1): 4, (0, 2): 4, (0, 3): 4, (1, 2): 4, (1, 3): 4, (2, 3): 4}
HIDDEN = {
    gpu: a_card(gpu, [Nvlink(NvlinkPeerType.UNKNOWN)] * 18, 50, [o for o in range(4) if o != gpu]) for gpu in range(4)
}


def islands(cards: dict[int, GpuInfo]) -> dict[str, tuple[int, list[int]]]:
    """Members and bandwidth by name; what stands alone is left out."""
    found: dict[str, tuple[int, list[int]]] = {}
    for gpu, place in places(cards).items():
        if place.island:
            found.setdefault(place.island, (place.bandwidth, []))[1].append(gpu)
    return found


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        pytest.param(switched(8, 18), {"nvlink-0": (450, [*range(8)])}, id="hgx-h100"),
        pytest.param(switched(8, 12), {"nvlink-0": (300, [*range(8)])}, id="hgx-a100"),
        pytest.param(switched(16, 6), {"nvlink-0": (150, [*range(16)])}, id="dgx-2"),
        pytest.param(switched(8, 18, 50), {"nvlink-0": (900, [*range(8)])}, id="hgx-b200"),
        pytest.param(switched(4, 0), {}, id="pcie-box"),
        pytest.param(wired(4, FOUR), {"nvlink-0": (100, [0, 1, 2, 3])}, id="four-gpu-board-without-switch"),
        pytest.param(
            wired(4, {(0, 1): 12, (2, 3): 12}),
            {"nvlink-0": (300, [0, 1]), "nvlink-2": (300, [2, 3])},
            id="bridged-pairs",
        ),
        pytest.param(
            wired(8, CUBE_MESH),
            {"nvlink-0": (25, [0, 1, 2, 3]), "nvlink-4": (25, [4, 5, 6, 7])},
            id="dgx-1-mesh-is-two-of-four",
        ),
        pytest.param(
            wired(3, {(0, 1): 2, (1, 2): 4}), {"nvlink-1": (100, [1, 2])}, id="a-chain-keeps-its-fastest-pair"
        ),
        pytest.param(HIDDEN, {"nvlink-0": (900, [0, 1, 2, 3])}, id="ends-hidden-and-peers-said"),
        pytest.param({}, {}, id="no-gpus"),
    ],
)
def test_islands_of_a_board(cards: dict[int, GpuInfo], expected: dict[str, tuple[int, list[int]]]) -> None:
    assert islands(cards) == expected


def test_a_gpu_whose_links_are_down_leaves_the_island() -> None:
    board = switched(8, 18) | {3: a_card(3)}
    assert islands(board) == {"nvlink-0": (450, [0, 1, 2, 4, 5, 6, 7])}


def test_a_gpu_with_fewer_links_slows_its_island() -> None:
    board = switched(8, 18) | {3: a_card(3, [Nvlink(NvlinkPeerType.SWITCH)] * 6)}
    assert islands(board) == {"nvlink-0": (150, [*range(8)])}


def test_peers_are_all_that_are_wired_also_beyond_the_island() -> None:
    assert places(wired(8, CUBE_MESH))[0].peers == (1, 2, 3, 4)


def test_the_name_of_an_island_does_not_depend_on_others_being_there() -> None:
    board = wired(4, {(0, 1): 12, (2, 3): 12})
    assert islands({gpu: board[gpu] for gpu in (2, 3)}) == {"nvlink-2": (300, [2, 3])}


@given(st.dictionaries(st.sampled_from([(a, b) for a in range(6) for b in range(a + 1, 6)]), st.integers(1, 4)))
def test_members_of_an_island_are_all_peers_of_each_other(links: dict[tuple[int, int], int]) -> None:
    found = places(wired(6, links))
    for gpu, place in found.items():
        company = {other for other in found if found[other].island == place.island and other != gpu}
        assert not place.island or company
        assert not place.island or company <= set(place.peers)
        assert bool(place.bandwidth) == bool(place.island)
