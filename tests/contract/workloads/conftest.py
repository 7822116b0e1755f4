"""Every story of this folder is told twice: by simulated actors on virtual time, and by the real controllers."""

import asyncio

import pytest

from tests.contract.workloads.cluster import real_cluster, simulated_cluster
from tests.contract.workloads.stories import Play, Story
from ullage.sim.time import run_virtual


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.real)])
def play(request: pytest.FixtureRequest) -> Play:
    """Tells a story in one of the two worlds."""
    if request.param == "simulated":
        return _play_simulated
    plane = request.getfixturevalue("workload_control_plane")

    async def live(story: Story) -> None:
        async with real_cluster(plane) as cluster:
            await story(cluster)

    return lambda story: asyncio.run(live(story))


def _play_simulated(story: Story) -> None:
    async def live() -> None:
        async with simulated_cluster() as cluster:
            await story(cluster)

    run_virtual(live())
