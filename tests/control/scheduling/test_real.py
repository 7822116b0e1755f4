"""The scheduler as a program, on the real control plane: placed, told, leased; its API server killed under it."""

import asyncio
import subprocess

import pytest

from tests.control.scheduling.fleet import add_nodes, each, reporting, submit
from tests.control.scheduling.programs import ALONE, PROGRAM, Programs
from tests.control.scheduling.reading import settled
from ullage.clock import WallClock
from ullage.kube.api import KubeApi
from ullage.kube.resources import PODS
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, Program
from ullage.testing.controlplane.fixtures import StartControlPlane
from ullage.testing.placement_check import islands_of

pytestmark = pytest.mark.real

NAMESPACE = "default"


async def fleet(api: KubeApi, nodes: int) -> list[str]:
    names = [f"node-{number:03d}" for number in range(nodes)]
    await add_nodes(api, names, WallClock())
    return names


async def test_mixed_claims_are_placed_on_islands_and_leased(
    plane: ControlPlane, api: KubeApi, programs: Programs
) -> None:
    names = await fleet(api, 20)
    sizes = [1, 2, 4, 8, 1, 1, 4, 2] * 6
    programs.scheduler(plane.kubeconfig)
    async with reporting(api, names, WallClock()):
        await each(enumerate(sizes), lambda item: submit(api, NAMESPACE, f"p{item[0]:03d}", item[1]))
        reading = await settled(api, 60, programs)
    for pod in reading.pods:
        assert len(islands_of(reading, pod)) == (1 if len(pod.gpu_ids) <= 4 else 2)
        assert (await api.get(PODS, pod.key.name, pod.key.namespace)).metadata.annotations[
            "gpu.scheduling/visible-devices"
        ] == ",".join(f"GPU-{pod.node}-{gpu}" for gpu in pod.gpu_ids)


@pytest.mark.fault
async def test_an_api_server_killed_under_load_loses_nothing(
    plane: ControlPlane, api: KubeApi, programs: Programs
) -> None:
    names = await fleet(api, 10)
    programs.scheduler(plane.kubeconfig, ALONE)
    await submit(api, NAMESPACE, "first", 1)
    await settled(api, 30, programs)
    async with reporting(api, names, WallClock()):
        await each(range(30), lambda number: submit(api, NAMESPACE, f"a{number}", 1))
        await asyncio.to_thread(plane.kill, Program.APISERVER)
        await asyncio.to_thread(plane.start, Program.APISERVER)
        await each(range(30), lambda number: submit(api, NAMESPACE, f"b{number}", 1))
        await settled(api, 60, programs)


async def test_without_what_install_brings_it_says_so(start_control_plane: StartControlPlane) -> None:
    bare = start_control_plane(ControlPlaneSpec())
    command = (PROGRAM, "scheduler", "--kubeconfig", bare.kubeconfig)
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert "run `ullage install` first" in done.stderr


async def test_it_stops_cleanly_when_told_to(plane: ControlPlane, api: KubeApi, programs: Programs) -> None:
    process = programs.scheduler(plane.kubeconfig)
    await fleet(api, 1)
    await submit(api, NAMESPACE, "p", 1)
    await settled(api, 30, programs)
    process.terminate()
    assert await asyncio.to_thread(process.wait, 15) == 0
