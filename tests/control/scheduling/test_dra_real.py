"""Our scheduler and kube-scheduler on one node whose GPUs a DRA driver publishes: each GPU has one of them."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.expect import eventually
from ullage.act.fence import fence
from ullage.errors import Conflict, Forbidden
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import DELETE_NOW, Binding, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import GPU_CLAIMS, GPU_NODE_STATUSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from ullage.model.allocation import ALLOCATED, CLAIM
from ullage.model.fact_event import ObjectKey
from ullage.model.lease import LEASE_NAMESPACE
from ullage.testing.builders import a_node, a_pod
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.binaries import find
from ullage.testing.controlplane.fixtures import StartControlPlane
from ullage.testing.controlplane.versions import GoProgram

pytestmark = pytest.mark.real

PROGRAM = Path(sys.executable).with_name("ullage")
NODE, NS, DRIVER = "gpu-1", "default", "gpu.nvidia.com"
CLASSES = Resource[JsonObject]("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False, dict)
CLAIMS = RESOURCE_CLAIMS[0].whole()
EVERYTHING = [{"operator": "Exists"}]
SCHEDULER = "system:serviceaccount:ullage-system:ullage-scheduler"
DEPLOY = Path(__file__).parents[3] / "deploy" / "scheduler"


@pytest.fixture
def plane(start_control_plane: StartControlPlane) -> ControlPlane:
    plane = start_control_plane(ControlPlaneSpec(components=(GoProgram.CONTROLLER_MANAGER, GoProgram.SCHEDULER)))
    subprocess.run(
        (PROGRAM, "install", "--definitions-only", "--apply", "--kubeconfig", plane.kubeconfig),
        check=True,
        capture_output=True,
    )
    kubectl = (str(find(GoProgram.KUBECTL)), f"--kubeconfig={plane.kubeconfig}")
    subprocess.run((*kubectl, "apply", "-f", str(DEPLOY)), check=True, capture_output=True)
    return plane


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[KubeApi]:
    api = connect(plane.kubeconfig)
    await api.create(NODES, a_node(NODE))
    yield api
    await api.close()


@contextmanager
def running(kubeconfig: Path, *command: str) -> Iterator[None]:
    """It ends with the block."""
    process = subprocess.Popen(
        (PROGRAM, *command, "--kubeconfig", kubeconfig), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def publish(api: KubeApi) -> None:
    """What the driver says: two devices, which are our GPUs in the other order."""
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    await api.create(CLASSES, {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}})
    uuids = [gpu.uuid for gpu in (await api.get(GPU_NODE_STATUSES, NODE)).status.devices]
    devices = [
        {"name": f"gpu-{minor}", "attributes": {"uuid": {"string": uuid}}} for minor, uuid in enumerate(reversed(uuids))
    ]
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": NODE, "pool": pool, "devices": devices}
    await api.create(RESOURCE_SLICES[0], {"metadata": {"name": "slice"}, "spec": spec})


async def by_resource_claim(api: KubeApi, name: str) -> None:
    """A pod of kube-scheduler's that wants a device, tolerates every taint of nodes and every taint of devices."""
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1, "tolerations": EVERYTHING}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    await api.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, NS)
    claims = [{"name": "gpu", "resourceClaimName": name}]
    await api.create(PODS, a_pod(name, resourceClaims=claims, tolerations=EVERYTHING), NS)


async def by_lease(api: KubeApi, name: str) -> None:
    await api.create(GPU_CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"count": 1}}}, NS)
    more: dict[str, Any] = {"schedulerName": "gpu-scheduler", "tolerations": EVERYTHING}
    await api.create(PODS, a_pod(name, annotations={CLAIM: name}, gpus=1, **more), NS)


async def holders(api: KubeApi) -> dict[str, list[str]]:
    """By UUID of a GPU, who has it: by Lease, or by ResourceClaim. Reservations of ours are not looked at."""
    uuids = {gpu.id: gpu.uuid for gpu in (await api.get(GPU_NODE_STATUSES, NODE)).status.devices}
    names = {f"gpu-{minor}": uuid for minor, uuid in enumerate(uuids[gpu] for gpu in sorted(uuids, reverse=True))}
    found: dict[str, list[str]] = {}
    for pod in (await api.list(PODS, NS)).items:
        for gpu in pod.metadata.annotations.get(ALLOCATED, ":").partition(":")[2].split(","):
            if gpu:
                found.setdefault(uuids[int(gpu)], []).append(pod.metadata.name)
    for claim in (await api.list(CLAIMS, NS)).items:
        given = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
        for one in given["devices"]["results"]:
            found.setdefault(names[one["device"]], []).append(claim["metadata"]["name"])
    return found


async def placed(api: KubeApi) -> set[str]:
    return {pod.metadata.name for pod in (await api.list(PODS, NS)).items if pod.spec.node_name}


async def test_each_gpu_has_one_holder_whoever_comes_first(plane: ControlPlane, api: KubeApi) -> None:
    agent = ("agent", "--node-name", NODE, "--simulate", "2xL4", "--mode", "leased")
    own = plane.kubeconfig_for(SCHEDULER)
    with running(plane.kubeconfig, *agent), running(own, "scheduler", "--no-leader-election"):
        await eventually(lambda: api.list(GPU_NODE_STATUSES), until=lambda now: _total(now.items) == 2, seconds=60)
        await publish(api)
        await by_lease(api, "ours")
        await eventually(lambda: placed(api), until=lambda now: now == {"ours"}, seconds=60)
        await by_resource_claim(api, "theirs")
        await by_resource_claim(api, "waits")
        await eventually(lambda: placed(api), until=lambda now: len(now) == 2, seconds=60)
        await by_lease(api, "ours-waits")
        reserved = await reservations(api)
        for name in reserved:
            await api.delete(CLAIMS, name, LEASE_NAMESPACE)  # by an admin, while a pod waits for the device
        with pytest.raises(TimeoutError):
            await eventually(lambda: placed(api), until=lambda now: len(now) > 2, seconds=5)
        assert sorted(map(len, (await holders(api)).values())) == [1, 1]
        assert await reservations(api) == reserved

        await api.delete(PODS, "ours", NS, how=DELETE_NOW)
        await eventually(lambda: placed(api), until=lambda now: len(now) == 2, seconds=60)
        assert sorted(map(len, (await holders(api)).values())) == [1, 1], "what was let go, one of those who wait has"


async def test_a_bind_is_fenced_off_without_the_right_to_change_pods(plane: ControlPlane, api: KubeApi) -> None:
    made = await api.create(PODS, a_pod("p"), NS)
    own = connect(plane.kubeconfig_for(SCHEDULER))
    try:
        with pytest.raises(Forbidden):
            await own.patch(PODS, "p", MergePatch({"metadata": {"labels": {"a": "b"}}}), NS)
        fenced = await fence(own, ObjectKey(NS, "p"), made.metadata.uid, f"test@{made.metadata.resource_version}")
        assert fenced is not None
        assert fenced.metadata.resource_version != made.metadata.resource_version
        late = Binding(NODE, uid=made.metadata.uid, resource_version=made.metadata.resource_version)
        with pytest.raises(Conflict):
            await own.bind("p", NS, late)
    finally:
        await own.close()


async def reservations(api: KubeApi) -> dict[str, str]:
    """Names of claims of ours that are allocated, with their uids."""
    found = (await api.list(CLAIMS, LEASE_NAMESPACE)).items
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found if one.get("status", {}).get("allocation")}


def _total(items: Any) -> int:
    return next((one.status.total or 0 for one in items), 0)
