"""What a node would offer if some of its pods were gone."""

from hypothesis import given
from hypothesis import strategies as st

from tests.decide.devices.boards import GIB, a_board, a_device, islands
from ullage.decide.devices.choice import Choice
from ullage.decide.devices.choosing import choose
from ullage.decide.devices.freeing import Holding, taken, without, would_get
from ullage.model.claim import DeviceAsk, Exclusivity, TopologyMode
from ullage.model.verdict import Reason, Verdict


def test_the_right_victims_free_an_island() -> None:
    board = islands(4, 4, free="##.. ##..")
    ask = DeviceAsk(count=4, topology=TopologyMode.REQUIRED)
    across = would_get(board, ask, [Holding((2,)), Holding((6,))])
    assert isinstance(across, Verdict)
    assert across.reason is Reason.NO_ISLAND_LARGE_ENOUGH
    within = would_get(board, ask, [Holding((6,)), Holding((7,))])
    assert isinstance(within, Choice)
    assert within.ids == (4, 5, 6, 7)


def test_shares_come_back_in_part() -> None:
    board = a_board(a_device(0), free=(100,))
    ask = DeviceAsk(exclusivity=Exclusivity.SHARED, memory=40 * GIB)
    assert isinstance(would_get(board, ask, [Holding((0,), 300)]), Verdict)
    assert isinstance(would_get(board, ask, [Holding((0,), 300), Holding((0,), 200)]), Choice)


@given(st.lists(st.sampled_from([0, 1000]), min_size=8, max_size=8), st.integers(1, 8))
def test_taking_and_letting_go_restores_the_board(free: list[int], count: int) -> None:
    board = a_board(*(a_device(gpu, "ab"[gpu // 4]) for gpu in range(8)), free=tuple(free))
    choice = choose(board, DeviceAsk(count=count))
    if isinstance(choice, Choice):
        held = taken(board, choice)
        assert sum(held.free) == sum(free) - 1000 * count
        assert without(held, Holding(choice.ids)) == board
