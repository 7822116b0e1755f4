"""Programs on a real control plane of the test's own: its controllers and KWOK keep fake nodes and pods going."""

import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from tests.control.scheduling.programs import ALONE, PROGRAM, Programs
from ullage.kube.api import KubeApi
from ullage.kube.connect import find_access, open_api
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.crds.install import install
from ullage.kube.resources import NAMESPACES
from ullage.testing.builders import a_namespace
from ullage.testing.controlplane import WORKLOADS, ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import StartControlPlane


class PoolPrograms(Programs):
    """Schedulers and controllers."""

    def controller(self, kubeconfig: Path, *options: str) -> subprocess.Popen[bytes]:
        """Start one."""
        self._started += 1
        log = self._folder / f"controller-{self._started}.log"
        command: Sequence[str | Path] = (PROGRAM, "controller", "--kubeconfig", kubeconfig, ALONE, *options)
        with log.open("wb") as words:
            process = subprocess.Popen(command, stdout=words, stderr=subprocess.STDOUT)
        self._running[process] = log
        return process


@pytest.fixture
def plane(start_control_plane: StartControlPlane) -> ControlPlane:
    return start_control_plane(ControlPlaneSpec(components=WORKLOADS))


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[KubeApi]:
    opened = open_api(find_access(plane.kubeconfig), seed=0)
    try:
        await install(opened, (*OURS, POD_GROUP))
        await opened.create(NAMESPACES, a_namespace("ullage-system"))
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[PoolPrograms]:
    with PoolPrograms(tmp_path) as running:
        yield running
