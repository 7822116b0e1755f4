"""Every contract test runs twice: `memory` and `real`. It asks for `api` and for `ns`, a namespace of its own."""

from collections.abc import AsyncIterator

import pytest

from tests.contract.worlds import Forget, World, real_world
from ullage.kube.api import KubeApi


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.real)])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """One of the two; nobody but this fixture knows which. Its namespace is fresh."""
    async with real_world(request.getfixturevalue("control_plane")) as entered:
        yield entered


@pytest.fixture
def api(world: World) -> KubeApi:
    return world.api


@pytest.fixture
def ns(world: World) -> str:
    """A namespace nobody else uses; cluster-scoped objects take it as the beginning of their names."""
    return world.namespace


@pytest.fixture
def forget_history(world: World) -> Forget:
    """Makes the server forget what was before now: old continue tokens and resourceVersions are Gone."""
    return world.forget_history
