"""The scheduler beside Kubernetes' own device allocation, on the real API server."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.expect import eventually
from tests.control.scheduling.fleet import add_nodes, reporting, submit
from ullage.clock import WallClock
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from ullage.model.allocation import ALLOCATED
from ullage.testing.builders import a_pod
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import StartControlPlane

pytestmark = pytest.mark.real

PROGRAM = Path(sys.executable).with_name("ullage")
NS = "default"
CLAIMS, SLICES = RESOURCE_CLAIMS[0], RESOURCE_SLICES[0]


@pytest.fixture
def plane(start_control_plane: StartControlPlane) -> ControlPlane:
    plane = start_control_plane(ControlPlaneSpec())
    subprocess.run(
        (PROGRAM, "install", "--definitions-only", "--apply", "--kubeconfig", plane.kubeconfig),
        check=True,
        capture_output=True,
    )
    return plane


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[KubeApi]:
    api = connect(plane.kubeconfig)
    yield api
    await api.close()


async def allocate(api: KubeApi, name: str, node: str, *devices: str) -> None:
    """What kube-scheduler would do: make a claim and write on it what it was given."""
    wanted = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": len(devices)}}
    await api.create(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [wanted]}}}, NS)
    results = [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": node, "device": device} for device in devices]
    given = MergePatch({"status": {"allocation": {"devices": {"results": results}}}})
    await api.patch(CLAIMS, name, given, NS, subresource="status")


async def publish(api: KubeApi, node: str) -> None:
    """What a driver would do: say which device is which GPU. It numbers them from the last."""
    devices = [{"name": f"gpu-{gpu}", "attributes": {"uuid": {"string": f"GPU-{node}-{7 - gpu}"}}} for gpu in range(8)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": devices}
    await api.create(SLICES, {"metadata": {"name": f"{node}-gpus"}, "spec": spec})


async def allocated(api: KubeApi, name: str) -> str:
    return (await api.get(PODS, name, NS)).metadata.annotations.get(ALLOCATED, "")


@contextmanager
def a_scheduler(plane: ControlPlane) -> Iterator[None]:
    """The program, ended at the end of the block."""
    command = (PROGRAM, "scheduler", "--kubeconfig", plane.kubeconfig, "--no-leader-election")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def explained(plane: ControlPlane, pod: str) -> str:
    command = (PROGRAM, "explain", f"pod/{pod}", "--kubeconfig", plane.kubeconfig)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


async def test_what_kube_scheduler_gave_away_is_not_given_again(plane: ControlPlane, api: KubeApi) -> None:
    await add_nodes(api, ["n"], WallClock())
    await publish(api, "n")
    await allocate(api, "theirs", "n", "gpu-0", "gpu-1", "gpu-2", "gpu-3")
    async with reporting(api, ["n"], WallClock()):
        with a_scheduler(plane):
            await submit(api, NS, "ours", 4)
            assert await eventually(lambda: allocated(api, "ours"), until=bool, seconds=20) == "n:0,1,2,3"
            await submit(api, NS, "more", 1)
            claims = [{"name": "gpu", "resourceClaimName": "theirs"}]
            await api.create(PODS, a_pod("dra", schedulerName="gpu-scheduler", resourceClaims=claims), NS)
            said = await eventually(lambda: conditions(api, "dra"), until=bool, seconds=20)
            assert "spec.resourceClaims" in said
            assert "held by ResourceClaim default/theirs" in explained(plane, "more")
            await api.delete(CLAIMS, "theirs", NS)
            assert await eventually(lambda: allocated(api, "more"), until=bool, seconds=20) == "n:4"


async def conditions(api: KubeApi, name: str) -> str:
    found = (await api.get(PODS, name, NS)).status.conditions
    return "; ".join(one.message for one in found if one.type == "PodScheduled" and one.status == "False")
