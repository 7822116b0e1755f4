"""A real API server that knows our kinds, and a namespace of one's own in it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ullage.kube.auth.access import ClusterAccess
from ullage.kube.auth.connect import find_access, open_api
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import NAMESPACES
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.crds.install import install
from ullage.testing.controlplane import ControlPlane


@pytest.fixture(scope="session")
def access(control_plane: ControlPlane) -> ClusterAccess:
    """The way into a server that knows our kinds."""
    found = find_access(control_plane.kubeconfig)

    async def prepare() -> None:
        api = open_api(found, seed=0)
        try:
            await install(api, (*OURS, POD_GROUP))
        finally:
            await api.close()

    asyncio.run(prepare())
    return found


@pytest.fixture
async def api(access: ClusterAccess) -> AsyncIterator[KubeApi]:
    opened = open_api(access, seed=0)
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
async def ns(api: KubeApi) -> str:
    made = await api.create(NAMESPACES, {"metadata": {"generateName": "kinds-"}})
    return made.metadata.name
