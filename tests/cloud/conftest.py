"""Providers whose cloud is an API server are tried in both worlds of the contract suite."""

import pytest

from tests.contract.conftest import access, world
from tests.contract.worlds import World
from ullage.kube.client.api import KubeApi
from ullage.kube.crds.install import install

__all__ = ["access", "api", "world"]


@pytest.fixture
async def api(world: World) -> KubeApi:
    """It knows our kinds."""
    await install(world.api)
    return world.api
