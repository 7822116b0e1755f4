"""An API server for providers whose cloud is one: in memory, and real."""

from collections.abc import AsyncIterator

import pytest

from tests.contract.worlds import World, memory_world, real_world
from ullage.kube.api import KubeApi
from ullage.kube.connect import find_access
from ullage.kube.crds.install import install


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.real)])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """One of the two, with a fresh namespace."""
    if request.param == "memory":
        async with memory_world() as entered:
            yield entered
    else:
        plane = request.getfixturevalue("control_plane")
        async with real_world(plane, find_access(plane.kubeconfig)) as entered:
            yield entered


@pytest.fixture
async def api(world: World) -> KubeApi:
    """It knows our kinds."""
    await install(world.api)
    return world.api
