"""A control plane of its own, shared by the tests of one file."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.control.vms.site import VmSite
from ullage.kube.auth.connect import connect
from ullage.kube.crds.catalog import OURS
from ullage.kube.crds.install import install
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import prepare


@pytest.fixture(scope="module")
def vm_plane() -> Iterator[ControlPlane]:
    with prepare(ControlPlaneSpec()) as plane:
        yield plane


@pytest.fixture
def own_plane() -> Iterator[ControlPlane]:
    """A control plane for one test."""
    with prepare(ControlPlaneSpec()) as plane:
        yield plane


@pytest.fixture
async def site(vm_plane: ControlPlane) -> AsyncIterator[VmSite]:
    """Kinds, nodes and agents, made once for the file."""
    api = connect(vm_plane.kubeconfig)
    await install(api, OURS)
    site = VmSite(vm_plane, api)
    await site.build()
    yield site
    await api.close()


@pytest.fixture
def account_key(vm_plane: ControlPlane) -> Path:
    return next(vm_plane.folder.rglob("service-account*"))
