"""The same kubectl on both servers."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim.http.cluster import in_a_thread
from tests.sim.http.kubectl import Kubectl
from tests.sim.http.write_sequence import kubectl_for
from ullage.kube.auth.connect import connect
from ullage.kube.crds.install import install
from ullage.sim.http import ServeOptions
from ullage.testing.controlplane import ControlPlane


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture(scope="module")
def on_the_real_one(control_plane: ControlPlane, folder: Path) -> Kubectl:
    return real_kubectl(control_plane, folder)


@pytest.fixture(scope="module")
def on_the_simulated_one(folder: Path) -> Iterator[Kubectl]:
    with in_a_thread(ServeOptions(kubeconfig=folder / "simulated.kubeconfig")) as served:
        yield kubectl_for(served.kubeconfig, folder / "simulated")


def real_kubectl(plane: ControlPlane, folder: Path) -> Kubectl:
    """On a server that knows our kinds."""

    async def prepare() -> None:
        api = connect(plane.kubeconfig)
        try:
            await install(api)
        finally:
            await api.close()

    asyncio.run(prepare())
    return kubectl_for(plane.kubeconfig, folder / "real")
