"""MIG instances."""

import pytest

from tests.decide.placement.devices.gpus import GIB, a_board, a_device
from ullage.decide.placement.devices.choice import DeviceChoice
from ullage.decide.placement.devices.choose import choose
from ullage.decide.placement.devices.freeing import taken
from ullage.decide.placement.devices.layout import FreeDevices
from ullage.model.claim import DevicePolicy, DeviceRequest, Exclusivity, TopologyMode
from ullage.model.device import Device, DeviceHealth, MigInstance
from ullage.model.units import Bytes
from ullage.model.verdict import Reason, Verdict

MIG = Exclusivity.MIG


def split(gpu: int, *profiles: str, **facts: object) -> Device:
    """A GPU cut into instances named like `3g.40gb`."""
    parts = tuple(
        MigInstance(f"MIG-{gpu}-{number}", profile, Bytes(int(profile.partition(".")[2].removesuffix("gb")) * GIB))
        for number, profile in enumerate(profiles)
    )
    return a_device(gpu, "a", mig=parts, **facts)


def uuids(gpus: FreeDevices, ask: DeviceRequest) -> tuple[str, ...]:
    choice = choose(gpus, ask)
    assert isinstance(choice, DeviceChoice), choice
    return choice.instances


def test_the_smallest_that_is_large_enough() -> None:
    gpus = a_board(split(0, "3g.40gb", "1g.10gb"), split(1, "2g.20gb", "1g.10gb"))
    assert uuids(gpus, DeviceRequest(exclusivity=MIG)) == ("MIG-0-1",)
    assert uuids(gpus, DeviceRequest(exclusivity=MIG, memory=Bytes(12 * GIB))) == ("MIG-1-0",)
    assert uuids(gpus, DeviceRequest(exclusivity=MIG, memory=Bytes(21 * GIB))) == ("MIG-0-0",)
    assert uuids(gpus, DeviceRequest(exclusivity=MIG, tflops=400)) == ("MIG-0-0",), "three sevenths of 989"


def test_taken_instances_are_not_given_again() -> None:
    gpus = a_board(split(0, "1g.10gb", "1g.10gb"))
    ask = DeviceRequest(exclusivity=MIG, memory=Bytes(10 * GIB))
    given = []
    while isinstance(choice := choose(gpus, ask), DeviceChoice):
        given.append(choice)
        gpus = taken(gpus, choice)
    assert [choice.instances for choice in given] == [("MIG-0-0",), ("MIG-0-1",)]
    assert choose(gpus, ask) == Verdict(Reason.NO_MIG_INSTANCE, "1 of one profile asked, 0 of 2 that suit are free")


@pytest.mark.parametrize(
    ("policy", "prefer_ids", "expected"),
    [
        pytest.param(DevicePolicy.CONTIGUOUS, (), ("MIG-1-0", "MIG-1-1"), id="on-one-device-that-holds-both"),
        pytest.param(DevicePolicy.SPREAD, (), ("MIG-0-0", "MIG-1-0"), id="on-as-many-as-possible"),
        pytest.param(DevicePolicy.PREFER_IDS, (1, 2), ("MIG-1-0", "MIG-2-0"), id="one-on-each-preferred"),
    ],
)
def test_several(policy: DevicePolicy, prefer_ids: tuple[int, ...], expected: tuple[str, ...]) -> None:
    gpus = a_board(split(0, "1g.10gb"), split(1, "1g.10gb", "1g.10gb"), split(2, "1g.10gb", "1g.10gb", "1g.10gb"))
    assert uuids(gpus, DeviceRequest(count=2, exclusivity=MIG, policy=policy, prefer_ids=prefer_ids)) == expected


@pytest.mark.parametrize(
    ("gpus", "ask", "reason"),
    [
        pytest.param(
            a_board(a_device(0)), DeviceRequest(exclusivity=MIG), Reason.NO_MIG_INSTANCE, id="nothing-is-split"
        ),
        pytest.param(
            a_board(split(0, "1g.10gb")),
            DeviceRequest(exclusivity=MIG, memory=Bytes(11 * GIB)),
            Reason.GPU_MEMORY_TOO_SMALL,
            id="all-too-small",
        ),
        pytest.param(
            a_board(split(0, "1g.10gb")),
            DeviceRequest(exclusivity=MIG, tflops=200),
            Reason.GPU_MODEL_MISMATCH,
            id="too-weak",
        ),
        pytest.param(
            a_board(split(0, "1g.10gb", health=DeviceHealth.UNHEALTHY)),
            DeviceRequest(exclusivity=MIG),
            Reason.GPUS_UNHEALTHY,
            id="ill",
        ),
        pytest.param(
            a_board(split(0, "1g.10gb")),
            DeviceRequest(exclusivity=MIG, model="A100"),
            Reason.GPU_MODEL_MISMATCH,
            id="model",
        ),
        pytest.param(
            a_board(split(0, "1g.10gb", "1g.10gb")),
            DeviceRequest(count=2, exclusivity=MIG, topology=TopologyMode.REQUIRED),
            Reason.NO_ISLAND_LARGE_ENOUGH,
            id="instances-are-not-linked",
        ),
        pytest.param(
            a_board(split(0, "1g.10gb", "3g.40gb")),
            DeviceRequest(count=2, exclusivity=MIG),
            Reason.NO_MIG_INSTANCE,
            id="profiles-are-not-mixed",
        ),
        pytest.param(
            a_board(split(0, "1g.10gb")), DeviceRequest(), Reason.TOO_FEW_GPUS, id="a-split-gpu-is-not-given-whole"
        ),
        pytest.param(
            a_board(split(0, "1g.10gb")),
            DeviceRequest(exclusivity=Exclusivity.SHARED, memory=Bytes(GIB)),
            Reason.TOO_FEW_GPUS,
            id="nor-shared",
        ),
    ],
)
def test_refuses(gpus: FreeDevices, ask: DeviceRequest, reason: Reason) -> None:
    answer = choose(gpus, ask)
    assert isinstance(answer, Verdict)
    assert answer.reason is reason
