"""Every story of this folder is told twice: by simulated actors on virtual time, and by the real controllers."""

import asyncio

import pytest

from tests.contract.workloads.cluster import real_cluster, simulated_cluster
from tests.contract.workloads.stories import Play, Story
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.virtual_time import run_virtual
from ullage.testing.controlplane import WORKLOADS, ControlPlane, ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.fixtures import StartControlPlane

GRACE_SECONDS = 20
"""How long nodes may be silent in stories about that: longer than the ten seconds between two heartbeats."""


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.real)])
def play(request: pytest.FixtureRequest) -> Play:
    """Tells a story in one of the two worlds."""
    if request.param == "simulated":
        return lambda story: _play_simulated(story, ControllerManagerSettings())
    plane = request.getfixturevalue("workload_control_plane")
    return lambda story: _play_real(story, plane)


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.real)])
def play_with_heartbeats(request: pytest.FixtureRequest) -> Play:
    """The same in worlds where nodes must be heard of."""
    if request.param == "simulated":
        settings = ControllerManagerSettings(heartbeats=True, node_silence_seconds=GRACE_SECONDS)
        return lambda story: _play_simulated(story, settings)
    start: StartControlPlane = request.getfixturevalue("start_control_plane")
    flags = [f"--node-monitor-grace-period={GRACE_SECONDS}s", "--node-monitor-period=1s"]
    spec = ControlPlaneSpec(
        components=WORKLOADS, node_lifecycle=True, extra_flags={GoProgram.CONTROLLER_MANAGER: flags}
    )
    return lambda story: _play_real(story, start(spec))


def _play_real(story: Story, plane: ControlPlane) -> None:
    async def live() -> None:
        async with real_cluster(plane) as cluster:
            await story(cluster)

    asyncio.run(live())


def _play_simulated(story: Story, settings: ControllerManagerSettings) -> None:
    async def live() -> None:
        async with simulated_cluster(settings) as cluster:
            await story(cluster)

    run_virtual(live())


MINUTES_ON_THE_REAL_THING = (
    "test_pods_of_a_node_that_is_gone_are_collected_and_replaced[real]",
    "test_a_node_that_falls_silent_is_tainted_and_pods_leave_when_their_patience_ends[real]",
)
"""The real controllers wait before they collect: these are left to the full run. The simulated ones always run."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks them before the tiers are counted."""
    for item in items:
        if item.name in MINUTES_ON_THE_REAL_THING:
            item.add_marker(pytest.mark.full)
