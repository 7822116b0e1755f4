"""What holds on every board: the choice is what trying every set gives, and never a device that is taken or ill."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decide.placement.devices.gpus import GIB, a_board, a_device, by_the_book
from ullage.decide.placement.devices.choice import DeviceChoice
from ullage.decide.placement.devices.choose import choose
from ullage.decide.placement.devices.subsets import room_in_one_island
from ullage.model.claim import DevicePolicy, DeviceRequest, Exclusivity, TopologyMode
from ullage.model.device import MILLI_GPU, Device, DeviceHealth
from ullage.model.units import Bytes
from ullage.model.verdict import Reason

KINDS = (("NVIDIA H100 80GB HBM3", 80 * GIB), ("Tesla T4", 16 * GIB), ("Frobnicator", 24 * GIB))

healths = st.sampled_from([DeviceHealth.HEALTHY] * 6 + [DeviceHealth.UNHEALTHY, DeviceHealth.UNKNOWN])
counts = st.sampled_from([1, 1, 2, 2, 3, 4, 5, 8, 9])


@st.composite
def devices(draw: st.DrawFn, most: int = 8) -> list[Device]:
    ids = draw(st.lists(st.integers(0, most - 1), unique=True, max_size=most))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2))
    built = []
    for gpu in sorted(ids):
        model, memory = draw(st.sampled_from(kinds))
        island = draw(st.sampled_from(["a", "a", "b", "b", "c", ""]))
        bandwidth = draw(st.sampled_from([0, 200, 450]))
        health = draw(healths)
        built.append(a_device(gpu, island, model=model, memory=memory, bandwidth=bandwidth, health=health))
    return built


@st.composite
def asks(draw: st.DrawFn, exclusivity: Exclusivity = Exclusivity.EXCLUSIVE) -> DeviceRequest:
    policy = draw(st.sampled_from(DevicePolicy))
    prefer_ids = tuple(draw(st.lists(st.integers(0, 8), max_size=4))) if policy is DevicePolicy.PREFER_IDS else ()
    return DeviceRequest(
        count=draw(st.sampled_from([len(prefer_ids) or 1, draw(counts)])),
        policy=policy,
        prefer_ids=prefer_ids,
        exclusivity=exclusivity,
        model=draw(st.sampled_from(["", "", "H100", "T4", "A100"])),
        memory=Bytes(draw(st.sampled_from([0, 0, 4 * GIB, 20 * GIB, 90 * GIB]))),
        tflops=draw(st.sampled_from([0, 0, 0, 60, 200])),
        topology=draw(st.sampled_from(TopologyMode)),
        min_bandwidth=draw(st.sampled_from([0, 0, 300])),
    )


@st.composite
def amounts(draw: st.DrawFn) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.sampled_from([0, 300, 650, 1000, 1000, 1000]), min_size=8, max_size=8)))


@settings(max_examples=400)
@given(devices(), amounts(), st.one_of(asks(), asks(exclusivity=Exclusivity.SHARED)))
def test_chooses_as_trying_every_set_would(present: list[Device], free: tuple[int, ...], ask: DeviceRequest) -> None:
    answer = choose(a_board(*present, free=free), ask)
    expected = by_the_book(present, free, ask)
    assert (answer.ids if isinstance(answer, DeviceChoice) else answer.reason) == expected


@settings(max_examples=300)
@given(devices(), amounts(), st.one_of(asks(), asks(exclusivity=Exclusivity.SHARED)))
def test_never_a_taken_or_ill_gpu(present: list[Device], free: tuple[int, ...], ask: DeviceRequest) -> None:
    answer = choose(a_board(*present, free=free), ask)
    if not isinstance(answer, DeviceChoice):
        assert answer.reason is not Reason.FITS
        assert answer.detail
        return
    known = {device.id: device for device in present}
    assert len(set(answer.ids)) == ask.count
    for gpu in answer.ids:
        assert known[gpu].health is DeviceHealth.HEALTHY
        assert free[gpu] >= answer.share_milli
        assert known[gpu].memory >= ask.memory


@settings(max_examples=150)
@given(devices(), amounts(), st.integers(1, 8))
def test_contiguous_touches_as_few_islands_as_possible(
    present: list[Device], free: tuple[int, ...], count: int
) -> None:
    """Counted another way: the largest islands first until there are enough."""
    answer = choose(a_board(*present, free=free), DeviceRequest(count=count, topology=TopologyMode.IGNORE))
    alike = {device.model for device in present}
    if not isinstance(answer, DeviceChoice) or len(alike) > 1:
        return
    open_ = [d for d in present if free[d.id] == MILLI_GPU and d.health is DeviceHealth.HEALTHY]
    names = [device.island or f"alone-{device.id}" for device in open_]
    sizes = sorted((names.count(name) for name in set(names)), reverse=True)
    fewest = next(n for n in range(1, len(sizes) + 1) if sum(sizes[:n]) >= count)
    assert answer.islands == fewest


@settings(max_examples=100)
@given(devices(), amounts(), asks())
def test_the_order_devices_are_reported_in_does_not_matter(
    present: list[Device], free: tuple[int, ...], ask: DeviceRequest
) -> None:
    assert choose(a_board(*present, free=free), ask) == choose(a_board(*reversed(present), free=free), ask)


@settings(max_examples=100)
@given(devices(most=8), amounts(), st.integers(1, 8), st.sampled_from([0, 300]))
def test_the_table_of_room_agrees_with_the_choice(
    present: list[Device], free: tuple[int, ...], count: int, bandwidth: int
) -> None:
    same = [a_device(device.id, device.island, bandwidth=device.bandwidth) for device in present]
    gpus = a_board(*same, free=free)
    mask = sum(1 << device.id for device in same if free[device.id] == MILLI_GPU)
    room = int(room_in_one_island(gpus.layout.wiring, bandwidth)[mask])
    ask = DeviceRequest(count=count, topology=TopologyMode.REQUIRED, min_bandwidth=bandwidth)
    if count > 1:
        assert isinstance(choose(gpus, ask), DeviceChoice) == (room >= count)
