"""Volumes with the real volume controller: what we write is what it waits for."""

from collections.abc import AsyncIterator

import pytest

from tests.act.gangs import a_member, holders, leases_of
from tests.act.storage import NODE, Storage, selector
from tests.contract.expect import eventually
from tests.contract.worlds import fresh_namespace
from ullage.act.bind import PodBinder
from ullage.act.leases import LeaseClient
from ullage.clock import WallClock
from ullage.decide.placement.filters.first_consumer import assumed_on, volume_assignments, waiting_claims
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import NODES, PERSISTENT_VOLUMES, PODS
from ullage.kube.read import read_pod
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindPod, VolumeAssignment
from ullage.model.outcomes import PlaceOutcome, PodBound
from ullage.state.cluster import ClusterState
from ullage.state.storage import Storage as PictureOfStorage
from ullage.testing.builders import a_node, a_pod
from ullage.testing.controlplane import ControlPlane
from ullage.watch.sources import read_cluster

pytestmark = pytest.mark.real


@pytest.fixture
async def storage(workload_control_plane: ControlPlane) -> AsyncIterator[Storage]:
    api = connect(workload_control_plane.kubeconfig)
    storage = Storage(api, await fresh_namespace(api))
    await storage.prepare()
    yield storage
    await storage.clear()
    await api.close()


async def placed(storage: Storage, place: BindPod) -> PlaceOutcome:
    async with selector(storage.api, wait=30) as volumes:
        return await PodBinder(storage.api, LeaseClient(storage.api, storage.ns, WallClock()), volumes).perform(place)


async def bound_to(storage: Storage, claim: str) -> str:
    """By the mark kube-scheduler goes by, too: the controller writes the phase a moment after it."""
    found = await storage.read(claim)
    assert found["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    return str(found["spec"]["volumeName"])


async def test_a_volume_made_for_the_node_is_bound_and_then_the_pod(storage: Storage) -> None:
    await storage.claim("a")
    place = await a_member(storage.api, storage.ns, "p", NODE, (0,), volumes=("a",))
    async with storage.working(binding=False):
        assert await placed(storage, place) == PodBound(place)
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
    state: ClusterState = await read_cluster(api)
    assumed = assumed_on(pod, state.nodes[node], PictureOfStorage(state))
    waiting, promised = waiting_claims(assumed), volume_assignments(assumed)
    assert sorted(waiting) == ["data", "logs"]
    assert promised == (VolumeAssignment("data", volumes[0]), VolumeAssignment("logs", volumes[1]))
    place = BindPod(
        pod=pod.key,
        uid=pod.uid,
        resource_version=pod.resource_version,
        node=node,
        why="a test",
        volumes=waiting,
        volume_assignments=promised,
    )
    assert await placed(storage, place) == PodBound(place)
    assert [await bound_to(storage, claim) for claim in ("data", "logs")] == volumes[:2]
    assert await storage.promise(volumes[2]) is None
    after = await read_cluster(api)
    assert assumed_on(pod, after.nodes[node], PictureOfStorage(after)) == ()
    assert after.volume_claims[ObjectKey(storage.ns, "data")].bound
    await api.delete(NODES, node)


async def available(api: KubeApi, volumes: list[str]) -> bool:
    found = [await api.get(PERSISTENT_VOLUMES.whole(), name) for name in volumes]
    return all(volume["status"]["phase"] == "Available" for volume in found)
