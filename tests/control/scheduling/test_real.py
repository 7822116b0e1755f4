"""The scheduler as a program, on the real control plane: placed, told, leased; killed, doubled, and still sound."""

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.expect import eventually
from tests.control.scheduling.fleet import add_nodes, each, keep_reporting, submit
from ullage.clock import WallClock
from ullage.kube.api import DELETE_NOW, KubeApi
from ullage.kube.connect import connect
from ullage.kube.resources import PODS
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, Program
from ullage.testing.controlplane.fixtures import StartControlPlane
from ullage.testing.placement_check import Reading, breaches, islands_of, read_placements

pytestmark = pytest.mark.real

PROGRAM = Path(sys.executable).with_name("ullage")
LEASES = "ullage-system"
NAMESPACE = "default"


@pytest.fixture
def plane(start_control_plane: StartControlPlane) -> ControlPlane:
    """A control plane of its own: other tests' pods are none of this scheduler's business."""
    plane = start_control_plane(ControlPlaneSpec())
    subprocess.run((PROGRAM, "install", "--kubeconfig", plane.kubeconfig), check=True, capture_output=True)
    return plane


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[KubeApi]:
    api = connect(plane.kubeconfig)
    yield api
    await api.close()


@contextmanager
def a_scheduler(plane: ControlPlane, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program, ended at the end of the block."""
    command: tuple[str | Path, ...] = (PROGRAM, "scheduler", "--kubeconfig", plane.kubeconfig, *options)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def fleet(api: KubeApi, nodes: int) -> list[str]:
    names = [f"node-{number:03d}" for number in range(nodes)]
    await add_nodes(api, names, WallClock())
    return names


async def read(api: KubeApi) -> Reading:
    return await read_placements(api, LEASES)


def unplaced(reading: Reading) -> int:
    return sum(not pod.node for pod in reading.pods)


async def settled(api: KubeApi, seconds: float) -> Reading:
    """Everything placed and every lease that should be gone, gone."""
    return await eventually(
        lambda: read(api), until=lambda now: not unplaced(now) and not list(breaches(now)), seconds=seconds
    )


async def test_mixed_claims_are_placed_on_islands_and_leased(plane: ControlPlane, api: KubeApi) -> None:
    names = await fleet(api, 20)
    sizes = [1, 2, 4, 8, 1, 1, 4, 2] * 6
    reports = asyncio.ensure_future(keep_reporting(api, names, WallClock()))
    with a_scheduler(plane):
        await each(enumerate(sizes), lambda item: submit(api, NAMESPACE, f"p{item[0]:03d}", item[1]))
        reading = await settled(api, 60)
    reports.cancel()
    for pod in reading.pods:
        assert len(islands_of(reading, pod)) == (1 if len(pod.gpu_ids) <= 4 else 2)
        assert (await api.get(PODS, pod.key.name, pod.key.namespace)).metadata.annotations[
            "gpu.scheduling/visible-devices"
        ] == ",".join(f"GPU-{pod.node}-{gpu}" for gpu in pod.gpu_ids)


@pytest.mark.fault
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 20))])
async def test_two_at_once_and_one_killed_in_the_middle(plane: ControlPlane, api: KubeApi, seed: int) -> None:
    names = await fleet(api, 10)
    chance = random.Random(seed)
    reports = asyncio.ensure_future(keep_reporting(api, names, WallClock()))
    alone = ("--no-leader-election",)
    with a_scheduler(plane, *alone) as doomed, a_scheduler(plane, *alone):
        submitting = asyncio.ensure_future(
            each(range(40), lambda number: submit(api, NAMESPACE, f"p{number}", chance.choice([1, 1, 1, 2])), at_once=8)
        )
        await asyncio.sleep(chance.uniform(1.0, 4.0))
        doomed.send_signal(signal.SIGKILL)
        await submitting
        await asyncio.sleep(1.0)
        victims = [pod.key for pod in (await read(api)).pods[::4]]
        await each(victims, lambda key: api.delete(PODS, key.name, key.namespace, how=DELETE_NOW))
        # A pod the killed one had leased GPUs for may wait up to a minute for them.
        await settled(api, 120)
    reports.cancel()


@pytest.mark.full  # did not settle within its minute once in five runs on a busy machine; the cause is not found yet
@pytest.mark.fault
async def test_an_api_server_killed_under_load_loses_nothing(plane: ControlPlane, api: KubeApi) -> None:
    names = await fleet(api, 10)
    reports = asyncio.ensure_future(keep_reporting(api, names, WallClock()))
    with a_scheduler(plane, "--no-leader-election"):
        await each(range(30), lambda number: submit(api, NAMESPACE, f"a{number}", 1))
        await asyncio.to_thread(plane.kill, Program.APISERVER)
        await asyncio.to_thread(plane.start, Program.APISERVER)
        await each(range(30), lambda number: submit(api, NAMESPACE, f"b{number}", 1))
        await settled(api, 60)
    reports.cancel()


async def test_without_what_install_brings_it_says_so(start_control_plane: StartControlPlane) -> None:
    bare = start_control_plane(ControlPlaneSpec())
    command = (PROGRAM, "scheduler", "--kubeconfig", bare.kubeconfig)
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert "run `ullage install` first" in done.stderr


async def test_it_stops_cleanly_when_told_to(plane: ControlPlane, api: KubeApi) -> None:
    with a_scheduler(plane) as process:
        await fleet(api, 1)
        await submit(api, NAMESPACE, "p", 1)
        await settled(api, 30)
        process.terminate()
        assert await asyncio.to_thread(process.wait, 15) == 0
