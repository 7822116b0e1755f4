"""Every contract test runs twice: `memory` and `real`. It asks for `api` and for `ns`, a namespace of its own."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from tests.contract.steps import node_of
from tests.contract.worlds import Forget, World, memory_world, real_world
from ullage.kube.auth.access import ClusterAccess
from ullage.kube.auth.connect import find_access
from ullage.kube.client.api import KubeApi
from ullage.testing.controlplane import ControlPlane


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.real)])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """One of the two; nobody but this fixture knows which. Its namespace is fresh."""
    async with memory_world() if request.param == "memory" else real_world_of(request) as entered:
        yield entered


def real_world_of(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[World]:
    return real_world(request.getfixturevalue("control_plane"), request.getfixturevalue("access"))


@pytest.fixture(scope="session")
def access(control_plane: ControlPlane) -> ClusterAccess:
    """The way into the real one, read once: certificates are slow to load."""
    return find_access(control_plane.kubeconfig)


@pytest.fixture
def api(world: World) -> KubeApi:
    return world.api


@pytest.fixture
def ns(world: World) -> str:
    """A namespace nobody else uses; cluster-scoped objects take it as the beginning of their names."""
    return world.namespace


@pytest.fixture
async def node(api: KubeApi, ns: str) -> str:
    """Node that is there, for pods that are read after they were bound."""
    return await node_of(api, ns)


@pytest.fixture
def minor(world: World) -> int:
    """Minor of Kubernetes of this server, for words that were changed: 37 for 1.37."""
    return world.minor


@pytest.fixture
def forget_history(world: World) -> Forget:
    """Makes the server forget what widgets were before now: continue tokens and resourceVersions of theirs are Gone."""
    return world.forget_history
