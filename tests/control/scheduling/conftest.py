"""A control plane of its own for each test: other tests' pods are none of this scheduler's business."""

import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.control.scheduling.programs import PROGRAM, Programs
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import KubeApi
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import StartControlPlane

StartInstalled = Callable[[ControlPlaneSpec], ControlPlane]


@pytest.fixture
def start_installed(start_control_plane: StartControlPlane) -> StartInstalled:
    """Starts a control plane and brings it what the scheduler needs."""

    def start(spec: ControlPlaneSpec) -> ControlPlane:
        plane = start_control_plane(spec)
        command = (PROGRAM, "install", "--definitions-only", "--apply", "--kubeconfig", plane.kubeconfig)
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return plane

    return start


@pytest.fixture
def plane(start_installed: StartInstalled) -> ControlPlane:
    """etcd and kube-apiserver, with what `ullage install` brings."""
    return start_installed(ControlPlaneSpec())


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[KubeApi]:
    """Straight to `plane`."""
    api = connect(plane.kubeconfig)
    yield api
    await api.close()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """Schedulers as programs, ended with the test; what they said is shown if it failed."""
    with Programs(tmp_path) as programs:
        yield programs
