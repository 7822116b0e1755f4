"""Pods that wait cost the API server nothing while nothing changes, and little while the cluster does."""

import asyncio

import pytest

from tests.control.scheduling.counted import NS, Cluster, play
from tests.control.scheduling.fleet import SCHEDULER, submit
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import NODES, PODS
from ullage.testing.builders import a_pod

pytestmark = pytest.mark.story

MOST_PER_SECOND = 20
FIRST_TWO_MINUTES = 120.0


async def _fill(cluster: Cluster, waiting: int) -> None:
    """Both nodes are full, and this many pods wait: half of them with a claim."""
    await submit(cluster.api, NS, "first", 8)
    await submit(cluster.api, NS, "second", 8)
    await asyncio.sleep(10)
    gpus = {"limits": {"nvidia.com/gpu": 8}}
    for number in range(waiting):
        if number % 2:
            await submit(cluster.api, NS, f"w{number:05}", 8)
            continue
        body = a_pod(f"w{number:05}", schedulerName=SCHEDULER)
        body["spec"]["containers"][0]["resources"] = gpus
        await cluster.api.create(PODS, body, NS)


async def _told(cluster: Cluster, waiting: int) -> None:
    """Every pod says why it waits."""
    while True:
        await asyncio.sleep(10)
        pods = (await cluster.api.list(PODS, NS)).items
        if sum(any(one.type == "PodScheduled" for one in pod.status.conditions) for pod in pods) >= waiting:
            return


async def _change_for(cluster: Cluster, seconds: int) -> list[int]:
    """Requests in each second while nodes are cordoned and uncordoned: the verdict of every pod changes with it."""
    counts: list[int] = []
    for second in range(seconds):
        if second % 3 == 0:
            closed = second % 6 == 0
            for name in ("node-00", "node-01"):
                await cluster.api.patch(NODES, name, MergePatch({"spec": {"unschedulable": closed}}))
        before = sum(cluster.asked.calls.values())
        await asyncio.sleep(1)
        counts.append(sum(cluster.asked.calls.values()) - before)
    return counts


@pytest.mark.parametrize("waiting", [40, pytest.param(10_000, marks=pytest.mark.full)])
def test_waiting_pods_cost_nothing_at_rest_and_little_while_the_cluster_changes(
    waiting: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(cluster: Cluster) -> None:
        await _fill(cluster, waiting)
        await _told(cluster, waiting)
        await asyncio.sleep(FIRST_TWO_MINUTES + 30)
        cluster.asked.calls.clear()
        await asyncio.sleep(600)
        assert dict(cluster.asked.calls) == {}, "nothing changed, and yet something was asked for"
        counts = await _change_for(cluster, 60)
        with capsys.disabled():
            print(f"\n{waiting} waiting pods, cluster changing: {max(counts)} requests a second at most")  # noqa: T201
        assert sum(counts) > 0, "the change is told"
        assert max(counts) <= MOST_PER_SECOND

    play(story)


def test_one_pod_is_quiet_after_two_minutes_though_the_cluster_changes() -> None:
    """Its verdict stays the same: other nodes come and go, and the numbers in its message are not kept up."""

    async def story(cluster: Cluster) -> None:
        await _fill(cluster, 1)
        await asyncio.sleep(FIRST_TWO_MINUTES + 60)
        cluster.asked.calls.clear()
        for second in range(60):
            await cluster.api.patch(NODES, "node-01", MergePatch({"spec": {"unschedulable": second % 2 == 0}}))
            await asyncio.sleep(5)
        assert dict(cluster.asked.calls) == {}
        assert (await cluster.condition("w00000")).reason == "Unschedulable"
        assert len(await cluster.events("w00000")) == 1

    play(story)
