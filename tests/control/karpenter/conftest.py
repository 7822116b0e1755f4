"""A real control plane with Karpenter for all tests of the folder, and our programs on it."""

import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import PROGRAM
from ullage.kube.auth.connect import find_access, open_api
from ullage.model.provisioner import ZONE_LABEL
from ullage.testing.controlplane import ControlPlane
from ullage.testing.controlplane.fixtures import prepare
from ullage.testing.karpenter_cluster import SETTINGS, KarpenterCluster, karpenter_cluster, karpenter_spec

SPOT_ZONE = "zone-b"
"""Zone in which the cloud has spot instances only. The NodePool takes none, so that it has no offering there."""


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
    folder = tmp_path_factory.mktemp("karpenter")
    spec = karpenter_spec(folder)
    _offer_spot(folder / "types.json")
    with prepare(spec) as started:
        yield started


def _offer_spot(types: Path) -> None:
    """Add an offering to each instance type of the file that Karpenter reads."""
    known = json.loads(types.read_text())
    places = {"karpenter.sh/capacity-type": "spot", ZONE_LABEL: SPOT_ZONE}
    where = [{"key": key, "operator": "In", "values": [value]} for key, value in places.items()]
    for one in known:
        one["offerings"].append({"Price": 0.1, "Available": True, "Requirements": where})
    types.write_text(json.dumps(known))


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
