"""Volumes with the real volume controller: what we write is what it waits for."""

from collections.abc import AsyncIterator

import pytest

from tests.act.gangs import a_member, holders, leases_of
from tests.act.storage import NODE, Storage
from tests.contract.expect import eventually
from tests.contract.worlds import fresh_namespace
from ullage.act.leases import LeaseBook
from ullage.act.place import Placer
from ullage.clock import WallClock
from ullage.decide.fit.first_consumer import promises_on, waiting_claims
from ullage.kube.api import KubeApi
from ullage.kube.connect import connect
from ullage.kube.read import read_pod
from ullage.kube.resources import NODES, PERSISTENT_VOLUMES, PODS
from ullage.model.action import Place, VolumePromise
from ullage.model.event import ObjectKey
from ullage.model.outcome import Placed
from ullage.state.cluster import ClusterState
from ullage.testing.builders import a_node, a_pod
from ullage.testing.controlplane import ControlPlane
from ullage.watch.picture import read_picture

pytestmark = pytest.mark.real


@pytest.fixture
async def storage(workload_control_plane: ControlPlane) -> AsyncIterator[Storage]:
    api = connect(workload_control_plane.kubeconfig)
    storage = Storage(api, await fresh_namespace(api))
    await storage.prepare()
    yield storage
    await storage.clear()
    await api.close()


def hands(storage: Storage) -> Placer:
    return Placer(storage.api, LeaseBook(storage.api, storage.ns, WallClock()), volume_wait=30)


async def bound_to(storage: Storage, claim: str) -> str:
    """By the mark kube-scheduler goes by, too: the controller writes the phase a moment after it."""
    found = await storage.read(claim)
    assert found["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    return str(found["spec"]["volumeName"])


async def test_a_volume_made_for_the_node_is_bound_and_then_the_pod(storage: Storage) -> None:
    await storage.claim("a")
    place = await a_member(storage.api, storage.ns, "p", NODE, (0,), volumes=("a",))
    async with storage.working(binding=False):
        assert await hands(storage).perform(place) == Placed(place)
    assert await bound_to(storage, "a") == f"{storage.ns}-made-a"
    assert await holders(storage.api, storage.ns) == leases_of([place])


async def test_local_disks_are_chosen_promised_and_bound(storage: Storage) -> None:
    """From the picture of the cluster to the bound pod: nobody makes these volumes, so nobody else promises them."""
    api, node = storage.api, f"{storage.ns}-node"
    await api.create(NODES, a_node(node, labels={"kubernetes.io/hostname": NODE}))
    for claim in ("data", "logs"):
        await storage.claim(claim, local=True)
    volumes = [await storage.volume(name) for name in ("v0", "v1", "v2")]
    await eventually(lambda: available(api, volumes), until=bool)
    mounts = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in ("logs", "data")]
    pod = read_pod(await api.create(PODS, a_pod("p", volumes=mounts), storage.ns))
    state: ClusterState = await read_picture(api)
    waiting, promises = waiting_claims(pod, state), promises_on(pod, state.nodes[node], state)
    assert sorted(waiting) == ["data", "logs"]
    assert promises == (VolumePromise("data", volumes[0]), VolumePromise("logs", volumes[1]))
    place = Place(
        pod=pod.key,
        uid=pod.uid,
        resource_version=pod.resource_version,
        node=node,
        why="a test",
        volumes=waiting,
        promises=promises,
    )
    assert await hands(storage).perform(place) == Placed(place)
    assert [await bound_to(storage, claim) for claim in ("data", "logs")] == volumes[:2]
    assert await storage.promise(volumes[2]) is None
    after = await read_picture(api)
    assert waiting_claims(pod, after) == ()
    assert after.volume_claims[ObjectKey(storage.ns, "data")].bound
    await api.delete(NODES, node)


async def available(api: KubeApi, volumes: list[str]) -> bool:
    found = [await api.get(PERSISTENT_VOLUMES.whole(), name) for name in volumes]
    return all(volume["status"]["phase"] == "Available" for volume in found)
