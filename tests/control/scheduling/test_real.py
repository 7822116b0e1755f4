"""The scheduler as a program, on the real control plane: placed, told, leased; its API server killed under it."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from tests.control.scheduling.fleet import add_nodes, each, reporting, submit
from tests.control.scheduling.programs import ALONE, PROGRAM, Programs
from tests.control.scheduling.reading import LEASE_NAMESPACE, settled, until
from ullage.clock import WallClock
from ullage.errors import AlreadyExists
from ullage.kube.client.api import DELETE_NOW, KubeApi
from ullage.kube.client.resources import GPU_CLAIMS, LEASES, PODS
from ullage.testing.checks.placement import islands_of
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.binaries import find
from ullage.testing.controlplane.fixtures import StartControlPlane

pytestmark = pytest.mark.real

NAMESPACE = "default"
ROLE = Path(__file__).parents[3] / "deploy" / "scheduler"


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


async def test_users_may_delete_leases_and_claims_in_use(plane: ControlPlane, api: KubeApi, programs: Programs) -> None:
    """The Leases are made again; the claim stays until its pod is gone, and nobody else gets its name before.

    With no more rights than its role gives.
    """
    names = await fleet(api, 1)
    kubectl = (str(find(GoProgram.KUBECTL)), f"--kubeconfig={plane.kubeconfig}")
    await asyncio.to_thread(subprocess.run, (*kubectl, "apply", "-f", str(ROLE)), check=True, capture_output=True)
    programs.scheduler(plane.kubeconfig_for("system:serviceaccount:ullage-system:ullage-scheduler"), ALONE)
    async with reporting(api, names, WallClock()):
        await each(("p", "q"), lambda name: submit(api, NAMESPACE, name, 2))
        before = await settled(api, 60, programs)
        for lease in before.leases:
            await api.delete(LEASES, lease.name, LEASE_NAMESPACE)
        after = await settled(api, 30, programs)
        assert {one.name: one.holds for one in after.leases} == {one.name: one.holds for one in before.leases}
        await api.delete(GPU_CLAIMS, "p", NAMESPACE)
        await asyncio.sleep(8)
        with pytest.raises(AlreadyExists):
            await api.create(GPU_CLAIMS, {"metadata": {"name": "p"}, "spec": {"devices": {"count": 4}}}, NAMESPACE)
        assert (await api.get(GPU_CLAIMS, "p", NAMESPACE)).status.phase == "Bound"
        await api.delete(PODS, "p", NAMESPACE, how=DELETE_NOW)
        gone = {claim.metadata.name for claim in before.claims} - {"p"}
        await until(api, lambda now: {claim.metadata.name for claim in now.claims} == gone, 30, programs)


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
        await asyncio.to_thread(plane.kill, GoProgram.APISERVER)
        await asyncio.to_thread(plane.start, GoProgram.APISERVER)
        await each(range(30), lambda number: submit(api, NAMESPACE, f"b{number}", 1))
        await settled(api, 60, programs)


async def test_without_what_install_brings_it_says_so(start_control_plane: StartControlPlane) -> None:
    bare = start_control_plane(ControlPlaneSpec())
    command = (PROGRAM, "scheduler", "--kubeconfig", bare.kubeconfig)
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert "run `ullage install --apply` first" in done.stderr


async def test_it_stops_cleanly_when_told_to(plane: ControlPlane, api: KubeApi, programs: Programs) -> None:
    process = programs.scheduler(plane.kubeconfig)
    await fleet(api, 1)
    await submit(api, NAMESPACE, "p", 1)
    await settled(api, 30, programs)
    process.terminate()
    assert await asyncio.to_thread(process.wait, 15) == 0
