"""`ullage agent` as a program on the real control plane, reading a stand-in driver through `nvidia-ml-py`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent.driver import Driver, a_process, dgx_h100
from tests.agent.kubelet import GPU, Kubelet, serving
from tests.contract.expect import eventually
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import EVENTS, GPU_CLAIMS, GPU_NODE_STATUSES, NODES, PODS
from ullage.kube.objects.gpu import GpuNodeReport
from ullage.model.allocation import ALLOCATED, CLAIM
from ullage.testing.builders import a_node, a_pod
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import StartControlPlane

pytestmark = pytest.mark.real

PROGRAM = Path(sys.executable).with_name("ullage")
NODE = "gpu-1"
NS = "default"
TOLERATION = {"key": "gpu.scheduling/leased", "operator": "Exists", "effect": "NoSchedule"}


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
    await api.create(NODES, a_node(NODE))
    yield api
    await api.close()


@contextmanager
def a_program(*command: str | Path, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """It ends with the block."""
    process = subprocess.Popen(
        (PROGRAM, *command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **(env or {})}
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def agent(plane: ControlPlane, driver: Driver, *options: str | Path) -> Any:
    """The agent, with the stand-in where the loader looks first."""
    env = {"LD_LIBRARY_PATH": str(driver.library.parent), "ULLAGE_NVML_SCENARIO": str(driver.scenario)}
    return a_program("agent", "--kubeconfig", plane.kubeconfig, "--node-name", NODE, *options, env=env)


async def report(api: KubeApi) -> GpuNodeReport:
    found = [one for one in (await api.list(GPU_NODE_STATUSES)).items if one.metadata.name == NODE]
    return found[0].status if found else GpuNodeReport()


async def submit(api: KubeApi, name: str, count: int) -> None:
    await api.create(GPU_CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"count": count}}}, NS)
    pod = a_pod(name, annotations={CLAIM: name}, gpus=count, schedulerName="gpu-scheduler", tolerations=[TOLERATION])
    await api.create(PODS, pod, NS)


async def allocated(api: KubeApi, name: str) -> str:
    return (await api.get(PODS, name, NS)).metadata.annotations.get(ALLOCATED, "")


async def test_a_gpu_dies_and_the_cluster_knows_within_five_seconds(
    plane: ControlPlane, api: KubeApi, driver: Driver, tmp_path: Path
) -> None:
    driver.write(dgx_h100())
    proc = tmp_path / "proc"
    proc.mkdir()
    scheduler = ("scheduler", "--kubeconfig", plane.kubeconfig, "--no-leader-election")
    with agent(plane, driver, "--mode", "leased", "--proc", proc), a_program(*scheduler):
        said = await eventually(lambda: report(api), until=lambda now: now.total == 8, seconds=60)
        assert {(gpu.island, gpu.bandwidth) for gpu in said.devices} == {("nvlink-0", 450)}
        await submit(api, "train", 4)
        where = await eventually(lambda: allocated(api, "train"), until=bool, seconds=60)
        assert where == f"{NODE}:0,1,2,3"
        uid = (await api.get(PODS, "train", NS)).metadata.uid
        a_process(proc, 4711, uid)
        driver.also("proc 2 4711 1000 c")
        await eventually(lambda: report(api), until=lambda now: now.devices[2].in_use_by == (uid,), seconds=60)

        driver.also("dies 2 1", "dies 5 1")
        died = time.monotonic()
        dead = await eventually(lambda: report(api), until=lambda now: now.healthy == 6, seconds=5)
        assert time.monotonic() - died < 5
        assert {gpu.id for gpu in dead.devices if gpu.health == "Unhealthy"} == {2, 5}
        await eventually(lambda: told(api, "Pod/train"), until=lambda found: found == ["GpuUnhealthy"], seconds=60)
        await submit(api, "next", 3)
        assert await eventually(lambda: allocated(api, "next"), until=bool, seconds=60) == f"{NODE}:4,6,7"
        node = await api.get(NODES, NODE)
        assert (node.status.capacity[GPU], node.status.allocatable[GPU]) == ("8", "7"), "GPU 2 still has its pod"


async def told(api: KubeApi, about: str) -> list[str]:
    """Reasons the agent gave."""
    events: list[Any] = list((await api.list(EVENTS)).items)
    return [
        event["reason"]
        for event in events
        if event.get("reportingController") == "ullage.dev/agent"
        and f"{event['regarding']['kind']}/{event['regarding']['name']}" == about
    ]


async def test_simulated_gpus_on_a_node_without_any(plane: ControlPlane, api: KubeApi) -> None:
    options = ("agent", "--kubeconfig", plane.kubeconfig, "--node-name", NODE, "--simulate", "4xA100-PCIe")
    with a_program(*options) as process:
        said = await eventually(lambda: report(api), until=lambda now: now.total == 4, seconds=60)
        assert {gpu.model for gpu in said.devices} == {"NVIDIA A100 80GB PCIe"}
        node = await eventually(
            lambda: api.get(NODES, NODE), until=lambda now: GPU in now.status.allocatable, seconds=60
        )
        assert node.metadata.labels["gpu.scheduling/node-kind"] == "leased"
        assert [taint.key for taint in node.spec.taints if taint.key.startswith("gpu.")] == ["gpu.scheduling/leased"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


async def test_a_counted_node_says_what_its_plugin_chose(
    plane: ControlPlane, api: KubeApi, driver: Driver, tmp_path: Path
) -> None:
    driver.write(dgx_h100())
    made = await api.create(PODS, a_pod("plugged", nodeName=NODE), NS)
    socket = tmp_path / "kubelet.sock"
    ids = [f"GPU-h100-{n}" for n in range(8)]
    kubelet = Kubelet({(NS, "plugged"): [(GPU, ids[3:5])]}, managed=[(GPU, ids)])
    async with serving(kubelet, socket):
        with agent(plane, driver, "--kubelet-socket", socket):
            said = await eventually(
                lambda: report(api), until=lambda now: any(gpu.in_use_by for gpu in now.devices), seconds=20
            )
    assert said.kind == "Counted"
    assert {gpu.id: gpu.in_use_by for gpu in said.devices if gpu.in_use_by} == {
        3: (made.metadata.uid,),
        4: (made.metadata.uid,),
    }
    assert not any(taint.key.startswith("gpu.") for taint in (await api.get(NODES, NODE)).spec.taints)


def test_a_node_that_is_not_there_is_named(plane: ControlPlane) -> None:
    command = ("agent", "--kubeconfig", plane.kubeconfig, "--node-name", "nowhere", "--simulate", "L4")
    done = subprocess.run((PROGRAM, *command), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("the cluster has no node nowhere; say which one this is with --node-name")
