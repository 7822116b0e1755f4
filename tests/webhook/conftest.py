"""One control plane for all tests of the webhook, because its configurations hold for a whole cluster."""

import subprocess
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.webhook.programs import DEPLOY, PROGRAM, Site, WebhookProgram
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import KubeApi
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.binaries import find
from ullage.testing.controlplane.fixtures import prepare


@pytest.fixture(scope="package")
def plane() -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, with what `ullage install` brings."""
    with prepare(ControlPlaneSpec()) as plane:
        subprocess.run(
            (PROGRAM, "install", "--definitions-only", "--apply", "--kubeconfig", plane.kubeconfig),
            check=True,
            capture_output=True,
        )
        kubectl = (str(find(GoProgram.KUBECTL)), f"--kubeconfig={plane.kubeconfig}")
        subprocess.run((*kubectl, "apply", "-f", str(DEPLOY / "rbac.yaml")), check=True, capture_output=True)
        yield plane


@pytest.fixture(scope="package")
def site(plane: ControlPlane) -> Iterator[Site]:
    """The users there are, and a port for the webhook."""
    with Site(plane) as site:
        yield site


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[KubeApi]:
    """As the cluster's admin."""
    api = connect(plane.kubeconfig)
    yield api
    await api.close()


@pytest.fixture
async def alice(site: Site) -> AsyncIterator[KubeApi]:
    """As a user who may do everything RBAC can allow."""
    api = connect(site.alice)
    yield api
    await api.close()


@pytest.fixture
async def scheduler(site: Site) -> AsyncIterator[KubeApi]:
    """As the scheduler's own identity."""
    api = connect(site.scheduler)
    yield api
    await api.close()


@pytest.fixture(scope="module")
def webhook(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookProgram]:
    """`ullage webhook` as a program, registered and ready; its configurations go with it, at the end of the module."""
    with WebhookProgram(site, tmp_path_factory.mktemp("webhook")) as program:
        yield program
