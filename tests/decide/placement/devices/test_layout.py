"""What a node would offer if some of its pods were gone."""

from hypothesis import given
from hypothesis import strategies as st

from tests.decide.placement.devices.gpus import GIB, a_board, a_device, islands
from ullage.decide.placement.devices.choice import DeviceChoice
from ullage.decide.placement.devices.choose import choose
from ullage.decide.placement.devices.freeing import DeviceHolding, taken, without, would_get
from ullage.model.claim import DeviceRequest, Exclusivity, TopologyMode
from ullage.model.units import Bytes, Milli
from ullage.model.verdict import Reason, Verdict


def test_the_right_victims_free_an_island() -> None:
    gpus = islands(4, 4, free="##.. ##..")
    ask = DeviceRequest(count=4, topology=TopologyMode.REQUIRED)
    across = would_get(gpus, ask, [DeviceHolding((2,)), DeviceHolding((6,))])
    assert isinstance(across, Verdict)
    assert across.reason is Reason.NO_ISLAND_LARGE_ENOUGH
    within = would_get(gpus, ask, [DeviceHolding((6,)), DeviceHolding((7,))])
    assert isinstance(within, DeviceChoice)
    assert within.ids == (4, 5, 6, 7)


def test_shares_come_back_in_part() -> None:
    gpus = a_board(a_device(0), free=(100,))
    ask = DeviceRequest(exclusivity=Exclusivity.SHARED, memory=Bytes(40 * GIB))
    assert isinstance(would_get(gpus, ask, [DeviceHolding((0,), Milli(300))]), Verdict)
    assert isinstance(
        would_get(gpus, ask, [DeviceHolding((0,), Milli(300)), DeviceHolding((0,), Milli(200))]), DeviceChoice
    )


def test_a_gpu_that_the_node_does_not_report_any_more_frees_nothing() -> None:
    gpus = a_board(a_device(0), free=(0,))
    assert without(gpus, DeviceHolding((0, 7))).free == (1000,)


@given(st.lists(st.sampled_from([0, 1000]), min_size=8, max_size=8), st.integers(1, 8))
def test_taking_and_letting_go_restores_the_board(free: list[int], count: int) -> None:
    gpus = a_board(*(a_device(gpu, "ab"[gpu // 4]) for gpu in range(8)), free=tuple(free))
    choice = choose(gpus, DeviceRequest(count=count))
    if isinstance(choice, DeviceChoice):
        held = taken(gpus, choice)
        assert sum(held.free) == sum(free) - 1000 * count
        assert without(held, DeviceHolding(choice.ids)) == gpus
