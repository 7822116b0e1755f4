"""One story on the real control plane and in the simulator: the two agree. `make test-full` plays all of them."""

import asyncio
from collections.abc import Iterator

import pytest

from ullage.sim.fidelity.compare import FidelityReport, compare
from ullage.testing.controlplane import WORKLOADS, ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import prepare
from ullage.testing.fidelity.real import measure, play_real
from ullage.testing.fidelity.simulated import play_simulated
from ullage.testing.fidelity.stories import STORIES, FidelityStory, short_story, story

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with prepare(ControlPlaneSpec(components=WORKLOADS)) as started:
        yield started


async def compared(plane: ControlPlane, told: FidelityStory) -> FidelityReport:
    latency = await measure(plane)
    real = await play_real(plane, told)
    simulated = await asyncio.to_thread(play_simulated, told, latency)
    return compare(told.name, told.arrivals, real, simulated)


async def test_a_short_story_ends_alike_on_both_sides(plane: ControlPlane) -> None:
    """Whole GPUs, a part of one, a node that is bought, a pod that leaves. Waits are judged on quiet machines."""
    report = await compared(plane, short_story())
    assert report.differences == (), report.line()
    assert report.single >= 4
    assert report.bought == (1, 1)


@pytest.mark.full
@pytest.mark.timeout(400)
@pytest.mark.parametrize("number", range(STORIES))
async def test_every_story_ends_alike_on_both_sides(plane: ControlPlane, number: int) -> None:
    report = await compared(plane, story(number))
    assert report.holds, (report.line(), report.differences)
