"""A real control plane with Karpenter for all tests of the folder, and our programs on it."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import PROGRAM
from ullage.kube.auth.connect import find_access, open_api
from ullage.testing.controlplane import ControlPlane
from ullage.testing.controlplane.fixtures import prepare
from ullage.testing.karpenter_cluster import SETTINGS, KarpenterCluster, karpenter_cluster, karpenter_spec


class KarpenterPrograms(PoolPrograms):
    """Schedulers, controllers, and agents of nodes."""

    def agent(self, kubeconfig: Path, node: str, gpus: int, mode: str = "auto") -> None:
        """Start the agent of a node with so many GPUs that are not there."""
        log = self._folder / f"agent-{node}.log"
        what = ("--simulate", f"{gpus}xH100-SXM", "--node-name", node, "--mode", mode)
        with log.open("wb") as words:
            process = subprocess.Popen(
                (PROGRAM, "agent", "--kubeconfig", kubeconfig, *what), stdout=words, stderr=subprocess.STDOUT
            )
        self._running[process] = log


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with prepare(karpenter_spec(tmp_path_factory.mktemp("karpenter"))) as started:
        yield started


@pytest.fixture
async def cluster(plane: ControlPlane) -> AsyncIterator[KarpenterCluster]:
    api = open_api(find_access(plane.kubeconfig), seed=0)
    try:
        async with karpenter_cluster(api) as found:
            yield found
    finally:
        await api.close()


@pytest.fixture
def programs(tmp_path: Path, cluster: KarpenterCluster) -> Iterator[KarpenterPrograms]:
    """Our programs. They end before the cluster is emptied."""
    del cluster
    with KarpenterPrograms(tmp_path) as running:
        yield running


@pytest.fixture
def agents(plane: ControlPlane, cluster: KarpenterCluster, programs: KarpenterPrograms) -> None:
    """`ullage agent --simulate` for each new node, in place of a simulated agent."""
    cluster.start_agent = lambda node, gpus: programs.agent(plane.kubeconfig, node, gpus)


@pytest.fixture
def settings(tmp_path: Path) -> str:
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(SETTINGS))
    return str(path)
