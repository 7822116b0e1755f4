"""What waiting costs the API server: streams, reads and writes of a scheduler whose pods have to wait."""

import asyncio
import itertools

import pytest

from tests.control.scheduling.counted import NS, Cluster, play
from tests.control.scheduling.fleet import SCHEDULER, add_nodes, submit
from ullage.act.concurrency import ended
from ullage.kube.client.api import DELETE_NOW, Binding, KubeApi, MergePatch
from ullage.kube.client.resources import GPU_CLAIMS, NODES, POD_GROUPS, PODS, STORAGE_CLASSES, VOLUME_CLAIMS
from ullage.model.allocation import CLAIM
from ullage.testing.builders import a_pod

pytestmark = pytest.mark.story

SLOW_CLASS = {
    "metadata": {"name": "slow"},
    "provisioner": "csi.example",
    "volumeBindingMode": "WaitForFirstConsumer",
}


FIRST_MINUTES = 120
TEN_MINUTES = 600


async def with_full_nodes(api: KubeApi) -> None:
    """On each of three nodes one GPU is taken, so that nobody gets eight."""
    for number in range(3):
        name = f"node-{number:02d}"
        await api.create(PODS, a_pod(f"o-{name}", gpus=1, nodeName=name), NS)


async def churn(cluster: Cluster, *, growing: bool = False) -> None:
    """Somewhere in the cluster a pod comes and goes every five seconds; and where it grows, a node comes each time."""
    for number in itertools.count():
        await asyncio.sleep(5)
        await cluster.api.create(PODS, a_pod(f"c{number}"), NS)
        await cluster.api.bind(f"c{number}", NS, Binding("node-00"))
        await asyncio.sleep(0.1)
        await cluster.api.delete(PODS, f"c{number}", NS, how=DELETE_NOW)
        if growing:
            # Its pod is there first: a node with eight free GPUs would be taken at once.
            await cluster.api.create(PODS, a_pod(f"full-{number}", gpus=1, nodeName=f"small-{number}"), NS)
            await add_nodes(cluster.api, [f"small-{number}"], cluster.clock)


@pytest.mark.parametrize("growing", [False, True], ids=["same-words", "other-counts"])
def test_pods_that_wait_for_the_same_reason_cost_no_request(growing: bool) -> None:
    async def story(cluster: Cluster) -> None:
        busy = asyncio.ensure_future(churn(cluster, growing=growing))
        for number in range(100):
            more = {"annotations": {CLAIM: f"v{number}"}} if number % 2 else {}
            if number % 2:
                claim = {"metadata": {"name": f"v{number}"}, "spec": {"devices": {"count": 8}}}
                await cluster.api.create(GPU_CLAIMS, claim, NS)
            await cluster.api.create(PODS, a_pod(f"v{number}", gpus=8, schedulerName=SCHEDULER, **more), NS)
        await asyncio.sleep(FIRST_MINUTES + 30)
        assert (await cluster.events("v0"))[0]["reason"] == "FailedScheduling"
        cluster.asked.calls.clear()
        await asyncio.sleep(TEN_MINUTES)
        assert cluster.asked.calls == {}
        assert [len(await cluster.events(f"v{number}")) for number in range(100)] == [1] * 100
        claim_status = (await cluster.api.get(GPU_CLAIMS, "v1", NS)).status
        assert "InsufficientResources" in claim_status.message
        await ended(busy)

    play(story, nodes=3, prepare=with_full_nodes)


def test_a_verdict_that_changes_is_said_again() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.api.create(PODS, a_pod("v", gpus=8, schedulerName=SCHEDULER), NS)
        await asyncio.sleep(FIRST_MINUTES + 30)
        for number in range(3):
            await cluster.api.patch(NODES, f"node-{number:02d}", MergePatch({"spec": {"unschedulable": True}}))
        await asyncio.sleep(15)
        said = await cluster.condition("v")
        assert "3 NodeUnschedulable" in said.message
        assert len(await cluster.events("v")) == 2

    play(story, nodes=3, prepare=with_full_nodes)


def test_a_verdict_that_goes_to_and_fro_is_said_ever_more_rarely() -> None:
    """Agents that flap: every twenty seconds another reason."""

    async def story(cluster: Cluster) -> None:
        await cluster.api.create(PODS, a_pod("v", gpus=8, schedulerName=SCHEDULER), NS)
        for turn in range(90):
            for number in range(3):
                patch = MergePatch({"spec": {"unschedulable": turn % 2 == 0}})
                await cluster.api.patch(NODES, f"node-{number:02d}", patch)
            await asyncio.sleep(20)
        written = sum(cluster.asked.about("pods/v/status").values())
        assert 3 <= written <= 12, written
        assert len(await cluster.events("v")) == 2, "one of each reason"

    play(story, nodes=3, prepare=with_full_nodes)


def test_a_gang_that_assembles_is_no_event_for_each_member_that_comes() -> None:
    async def story(cluster: Cluster) -> None:
        group = {"metadata": {"name": "g"}, "spec": {"minMember": 30, "scheduleTimeoutSeconds": 3600}}
        await cluster.api.create(POD_GROUPS, group, NS)
        for number in range(20):
            await submit(cluster.api, NS, f"g-{number}", 1, gangRef="g")
            await asyncio.sleep(0.5)
        await asyncio.sleep(FIRST_MINUTES)
        assert [len(await cluster.events(f"g-{number}")) for number in range(20)] == [1] * 20
        assert "20 of the 30" in (await cluster.condition("g-0")).message, "in the end it says how many there are"
        written = sum(count for call, count in cluster.asked.about("/status").items() if "PATCH" in call)
        assert written < 20 * 10, written
        cluster.asked.calls.clear()
        await asyncio.sleep(TEN_MINUTES)
        assert cluster.asked.calls == {}

    play(story, nodes=3)


async def a_pod_with_a_volume(api: KubeApi, name: str) -> None:
    """Its volume is never made."""
    spec = {"storageClassName": "slow", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await api.create(VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": spec}, NS)
    mounts = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    await api.create(PODS, a_pod(name, schedulerName=SCHEDULER, volumes=mounts), NS)


def test_pods_that_wait_for_volumes_open_no_streams_of_their_own() -> None:
    async def story(cluster: Cluster) -> None:
        await asyncio.sleep(20)
        before = cluster.asked.streams
        await cluster.api.create(STORAGE_CLASSES, SLOW_CLASS)
        for number in range(100):
            await a_pod_with_a_volume(cluster.api, f"v{number}")
        await asyncio.sleep(60)
        claims = [await cluster.api.get(VOLUME_CLAIMS, f"v{number}", NS) for number in range(100)]
        told = [one.metadata.annotations.get("volume.kubernetes.io/selected-node") for one in claims]
        assert None not in told, "every claim was told its node, and is waited for"
        assert cluster.asked.streams == before

    play(story, nodes=2)
