"""Which GPUs a claim gets, told by example."""

import pytest

from tests.decide.placement.devices.gpus import GIB, H100, a_board, a_device, islands
from ullage.decide.placement.devices.choice import DeviceChoice
from ullage.decide.placement.devices.choose import choose
from ullage.decide.placement.devices.layout import FreeDevices
from ullage.model.claim import DevicePolicy, DeviceRequest, Exclusivity, TopologyMode
from ullage.model.device import DeviceHealth
from ullage.model.units import Bytes, Milli
from ullage.model.verdict import Reason, Verdict

SPREAD, PREFER_IDS = DevicePolicy.SPREAD, DevicePolicy.PREFER_IDS
REQUIRED, IGNORE = TopologyMode.REQUIRED, TopologyMode.IGNORE
SHARED = Exclusivity.SHARED


def chosen(gpus: FreeDevices, ask: DeviceRequest) -> DeviceChoice:
    choice = choose(gpus, ask)
    assert isinstance(choice, DeviceChoice), choice
    return choice


def refused(gpus: FreeDevices, ask: DeviceRequest) -> Verdict:
    verdict = choose(gpus, ask)
    assert isinstance(verdict, Verdict), verdict
    return verdict


@pytest.mark.parametrize(
    ("gpus", "ask", "ids"),
    [
        pytest.param(islands(4, 4), DeviceRequest(count=1), (0,), id="one-is-the-lowest"),
        pytest.param(
            islands(4, 4, free="#.## ####"), DeviceRequest(count=4), (4, 5, 6, 7), id="one-island-beats-low-ids"
        ),
        pytest.param(islands(4, 4, free="#.#. .##."), DeviceRequest(count=2), (5, 6), id="adjacent-beats-low-ids"),
        pytest.param(islands(4, 4, free="#### ##.."), DeviceRequest(count=2), (4, 5), id="the-larger-island-is-spared"),
        pytest.param(
            islands(4, 3, 2, free="#### ### ##"), DeviceRequest(count=2), (7, 8), id="and-then-the-second-largest"
        ),
        pytest.param(
            islands(4, 4, free="###. ###."), DeviceRequest(count=4), (0, 1, 2, 4), id="two-islands-if-it-must-be"
        ),
        pytest.param(islands(8), DeviceRequest(count=8), tuple(range(8)), id="a-whole-node"),
        pytest.param(islands(4, 4), DeviceRequest(count=2, policy=SPREAD), (0, 4), id="spread-takes-both-islands"),
        pytest.param(
            islands(4, 4), DeviceRequest(count=4, policy=SPREAD), (0, 1, 4, 5), id="spread-takes-evenly-of-islands"
        ),
        pytest.param(
            islands(4, 4, free="#### ...#"),
            DeviceRequest(count=3, policy=SPREAD),
            (0, 1, 7),
            id="spread-as-even-as-it-gets",
        ),
        pytest.param(
            islands(4, 4),
            DeviceRequest(count=2, policy=PREFER_IDS, prefer_ids=(6, 3)),
            (3, 6),
            id="exactly-those-named",
        ),
        pytest.param(
            islands(16, 0), DeviceRequest(count=16, topology=REQUIRED), tuple(range(16)), id="sixteen-linked-gpus"
        ),
        pytest.param(
            a_board(a_device(0), a_device(1)), DeviceRequest(count=1, min_bandwidth=900), (0,), id="one-needs-no-link"
        ),
    ],
)
def test_chooses(gpus: FreeDevices, ask: DeviceRequest, ids: tuple[int, ...]) -> None:
    assert chosen(gpus, ask).ids == ids


OLD_AND_NEW = (
    a_device(0, "a", model="Tesla T4", memory=16 * GIB),
    a_device(1, "a", model="Tesla T4", memory=16 * GIB),
    a_device(2, "b"),
    a_device(3, "b"),
)


@pytest.mark.parametrize(
    ("gpus", "ask", "reason", "detail"),
    [
        pytest.param(a_board(), DeviceRequest(), Reason.NO_GPUS, "no GPUs", id="no-gpus-at-all"),
        pytest.param(
            islands(4),
            DeviceRequest(model="A100"),
            Reason.GPU_MODEL_MISMATCH,
            "A100 asked, the GPUs are NVIDIA H100",
            id="model",
        ),
        pytest.param(
            a_board(a_device(0, model="Frobnicator")),
            DeviceRequest(tflops=10),
            Reason.GPU_MODEL_MISMATCH,
            "how many 'Frobnicator' has is not known",
            id="tflops-of-an-unknown-model",
        ),
        pytest.param(
            a_board(a_device(0, model="NVIDIA L4")),
            DeviceRequest(tflops=300),
            Reason.GPU_MODEL_MISMATCH,
            "NVIDIA L4 has 121",
            id="too-weak",
        ),
        pytest.param(
            islands(4),
            DeviceRequest(memory=Bytes(81 * GIB)),
            Reason.GPU_MEMORY_TOO_SMALL,
            "largest GPU has 80.0 GiB",
            id="memory",
        ),
        pytest.param(
            a_board(a_device(0, "a"), a_device(1, "a", health=DeviceHealth.UNHEALTHY)),
            DeviceRequest(count=2),
            Reason.GPUS_UNHEALTHY,
            "1 healthy: GPU 1 is not",
            id="too-few-healthy",
        ),
        pytest.param(
            a_board(a_device(0, health=DeviceHealth.UNKNOWN)),
            DeviceRequest(),
            Reason.GPUS_UNHEALTHY,
            "0 healthy",
            id="unknown-health",
        ),
        pytest.param(
            islands(8), DeviceRequest(count=9), Reason.TOO_FEW_GPUS, "the node has 8", id="more-than-the-node-has"
        ),
        pytest.param(
            islands(8), DeviceRequest(count=40), Reason.TOO_FEW_GPUS, "the node has 8", id="more-than-any-node-has"
        ),
        pytest.param(
            islands(4, free="#..#"),
            DeviceRequest(count=3),
            Reason.TOO_FEW_GPUS,
            "2 of 4 that suit are free",
            id="too-few-free",
        ),
        pytest.param(
            a_board(*OLD_AND_NEW),
            DeviceRequest(count=3),
            Reason.TOO_FEW_GPUS,
            "has 2 that suit",
            id="models-are-not-mixed",
        ),
        pytest.param(
            islands(4, free="#.##"),
            DeviceRequest(count=2, policy=PREFER_IDS, prefer_ids=(1, 2)),
            Reason.PREFERRED_GPUS_TAKEN,
            "GPU 1 is not free",
            id="a-preferred-one-is-taken",
        ),
        pytest.param(
            islands(4),
            DeviceRequest(count=2, policy=PREFER_IDS, prefer_ids=(3, 17)),
            Reason.PREFERRED_GPUS_TAKEN,
            "no GPU 17",
            id="a-preferred-one-does-not-exist",
        ),
        pytest.param(
            islands(4),
            DeviceRequest(count=2, policy=PREFER_IDS, prefer_ids=(3, 3)),
            Reason.PREFERRED_GPUS_TAKEN,
            "2 GPUs asked, 1 ids preferred",
            id="one-preferred-twice",
        ),
        pytest.param(
            a_board(a_device(0), free=(400,)),
            DeviceRequest(exclusivity=SHARED, memory=Bytes(40 * GIB)),
            Reason.NO_ROOM_FOR_SHARE,
            "500 thousandths",
            id="no-room-for-a-share",
        ),
        pytest.param(
            islands(4, 4, free="###. ###."),
            DeviceRequest(count=4, topology=REQUIRED),
            Reason.NO_ISLAND_LARGE_ENOUGH,
            "4 asked in one island",
            id="islands-too-small",
        ),
        pytest.param(
            islands(4, 4),
            DeviceRequest(count=2, topology=REQUIRED, min_bandwidth=900),
            Reason.BANDWIDTH_TOO_LOW,
            "at 900 GB/s",
            id="links-too-slow",
        ),
    ],
)
def test_refuses_and_says_why(gpus: FreeDevices, ask: DeviceRequest, reason: Reason, detail: str) -> None:
    verdict = refused(gpus, ask)
    assert verdict.reason is reason
    assert detail in verdict.detail


def test_the_slowest_member_is_the_bandwidth_of_an_island() -> None:
    gpus = a_board(a_device(0, "a"), a_device(1, "a", bandwidth=50), a_device(2, "b"), a_device(3, "b"))
    fast = DeviceRequest(count=2, topology=REQUIRED, min_bandwidth=100)
    assert chosen(gpus, fast).ids == (2, 3)
    assert chosen(gpus, DeviceRequest(count=2, min_bandwidth=100)).ids == (2, 3), "preferred too, where it can be had"
    assert chosen(gpus, DeviceRequest(count=2, min_bandwidth=100, topology=IGNORE)).ids == (0, 1)


def test_a_preferred_topology_that_cannot_be_had_is_said() -> None:
    apart = chosen(islands(4, 4, free="##.. ##.."), DeviceRequest(count=3))
    assert (apart.ids, apart.islands, apart.satisfied) == ((0, 1, 4), 2, False)
    assert chosen(islands(4, 4, free="##.. ##.."), DeviceRequest(count=3, topology=IGNORE)).satisfied


def test_a_claim_without_a_model_leaves_the_better_gpus_alone() -> None:
    gpus = a_board(*OLD_AND_NEW)
    assert chosen(gpus, DeviceRequest()).ids == (0,)
    assert chosen(gpus, DeviceRequest(model="H100")).ids == (2,)
    assert chosen(gpus, DeviceRequest(memory=Bytes(40 * GIB))).ids == (2,)


def test_only_a_claim_that_does_not_care_mixes_models() -> None:
    gpus = a_board(*OLD_AND_NEW)
    assert chosen(gpus, DeviceRequest(count=3, topology=IGNORE)).ids == (0, 1, 2)
    assert chosen(gpus, DeviceRequest(count=2, topology=IGNORE)).ids == (0, 1), "alike where that is possible"
    assert refused(gpus, DeviceRequest(count=3, model="H100", topology=IGNORE)).reason is Reason.TOO_FEW_GPUS


@pytest.mark.parametrize(
    ("ask", "milli"),
    [
        pytest.param(DeviceRequest(exclusivity=SHARED, memory=Bytes(20 * GIB)), 250, id="memory"),
        pytest.param(DeviceRequest(exclusivity=SHARED, memory=Bytes(1)), 1, id="a-byte-is-a-thousandth"),
        pytest.param(DeviceRequest(exclusivity=SHARED, tflops=495), 501, id="tflops-rounded-up"),
        pytest.param(
            DeviceRequest(exclusivity=SHARED, memory=Bytes(60 * GIB), tflops=495), 750, id="the-larger-of-both"
        ),
        pytest.param(DeviceRequest(exclusivity=SHARED), 1000, id="no-size-is-the-whole-gpu"),
    ],
)
def test_size_of_a_share(ask: DeviceRequest, milli: int) -> None:
    assert chosen(a_board(a_device(0)), ask).share_milli == milli


def test_shares_fill_opened_gpus_first_unless_spread_or_leaning() -> None:
    gpus = a_board(a_device(0, "a"), a_device(1, "a"), a_device(2, "a"), free=(1000, 300, 600))
    quarter = DeviceRequest(exclusivity=SHARED, memory=Bytes(20 * GIB))
    assert chosen(gpus, quarter).ids == (1,)
    assert chosen(gpus, DeviceRequest(exclusivity=SHARED, memory=Bytes(20 * GIB), policy=SPREAD)).ids == (0,)
    assert choose(gpus, quarter, leaning=2) == DeviceChoice(ids=(2,), islands=1, satisfied=True, share_milli=Milli(250))
    half = DeviceRequest(exclusivity=SHARED, memory=Bytes(40 * GIB))
    assert choose(gpus, half, leaning=1) == DeviceChoice(ids=(2,), islands=1, satisfied=True, share_milli=Milli(500)), (
        "no room on 1"
    )


def test_shares_of_several_gpus_stay_in_one_island() -> None:
    gpus = a_board(*(a_device(gpu, "ab"[gpu // 2]) for gpu in range(4)), free=(300, 900, 800, 800))
    assert chosen(gpus, DeviceRequest(count=2, exclusivity=SHARED, memory=Bytes(40 * GIB))).ids == (2, 3)


def test_models_are_matched_by_word() -> None:
    assert H100.startswith("NVIDIA")
    gpus = a_board(a_device(0, model="NVIDIA A10"))
    assert refused(gpus, DeviceRequest(model="A100")).reason is Reason.GPU_MODEL_MISMATCH
    assert chosen(gpus, DeviceRequest(model="nvidia-a10")).ids == (0,)
