"""Leases of what is gone are freed, and of nothing else: in both worlds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.contract.expect import eventually
from tests.control.leases.lease_gc import Scene
from ullage.act.fence import FENCE
from ullage.clock import WallClock
from ullage.decide.leases.release import LeaseGcPolicy, ReleaseReason
from ullage.errors import Conflict
from ullage.kube.client.api import DELETE_NOW, KubeApi
from ullage.kube.client.resources import NODES, PODS
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import KubePod
from ullage.kube.read import read_pod
from ullage.kube.read.leases import SHARES
from ullage.model.fact_event import Deleted, ObjectKey
from ullage.model.pod import Pod
from ullage.model.units import Seconds

Step = Callable[[Scene], Awaitable[None]]


@pytest.fixture
async def scene(api: KubeApi, ns: str) -> Scene:
    scene = Scene(api, ns, WallClock())
    await scene.prepare()
    return scene


async def deleted(scene: Scene) -> None:
    await scene.running("p", 0, 1)
    await scene.api.delete(PODS, "p", scene.ns, how=DELETE_NOW)


async def replaced(scene: Scene) -> None:
    await deleted(scene)
    await scene.pod("p")


async def finished(scene: Scene) -> None:
    await scene.finish(await scene.running("p", 0, 1))


async def failed(scene: Scene) -> None:
    await scene.finish(await scene.running("p", 0, 1), "Failed")


async def bound_elsewhere(scene: Scene) -> None:
    holder = await scene.pod("p")
    await scene.hold(holder, 0, 1)
    await scene.bind(holder, 0, node="elsewhere")


async def bound_to_one_of_three(scene: Scene) -> None:
    holder = await scene.pod("p")
    await scene.hold(holder, 0, 1, 2)
    await scene.bind(holder, 2)


async def waits_for_a_gone_node(scene: Scene) -> None:
    await scene.hold(await scene.pod("p"), 0, 1)
    await scene.api.delete(NODES, scene.node)


@pytest.mark.parametrize(
    ("happened", "why", "left"),
    [
        pytest.param(deleted, ReleaseReason.POD_GONE, set(), id="deleted"),
        pytest.param(replaced, ReleaseReason.POD_REPLACED, set(), id="replaced"),
        pytest.param(finished, ReleaseReason.POD_FINISHED, set(), id="finished"),
        pytest.param(failed, ReleaseReason.POD_FINISHED, set(), id="failed"),
        pytest.param(bound_elsewhere, ReleaseReason.NOT_ALLOCATED, set(), id="bound-elsewhere"),
        pytest.param(bound_to_one_of_three, ReleaseReason.NOT_ALLOCATED, {2}, id="bound-to-one-of-three"),
        pytest.param(waits_for_a_gone_node, ReleaseReason.NODE_GONE, set(), id="waits-for-a-gone-node"),
    ],
)
@pytest.mark.parametrize("when", ["before-it-listens", "while-it-listens"])
async def test_holds_that_are_over_are_freed(
    scene: Scene, happened: Step, why: ReleaseReason, left: set[int], when: str
) -> None:
    await scene.running("other", 7)
    if when == "before-it-listens":
        await happened(scene)
    async with scene.swept() as sweeper:
        await eventually(scene.held, until=lambda held: 7 in held)
        if when == "while-it-listens":
            await happened(scene)
        await eventually(scene.held, until=lambda held: held == {7} | left)
        await eventually(lambda: asyncio.sleep(0, len(scene.freed)), until=lambda n: n == 2)
        await eventually(lambda: asyncio.sleep(0, sweeper.held), until=lambda n: n == 1 + len(left))
    # A pod that is replaced is gone for a moment: whoever looks just then sees that.
    expected = {why, ReleaseReason.POD_GONE} if why is ReleaseReason.POD_REPLACED else {why}
    assert {freed.why for freed in scene.freed} <= expected


async def test_a_live_pod_keeps_its_gpus_whatever_the_watch_says(scene: Scene) -> None:
    holder = await scene.running("p", 0, 1)
    waiting = await scene.pod("q")
    await scene.hold(waiting, 2)
    probe = await scene.running("probe", 7)
    async with scene.swept() as sweeper:
        await eventually(lambda: asyncio.sleep(0, sweeper.held), until=lambda n: n == 4)
        for one in (holder, waiting):
            sweeper.observe(Deleted(one.pod, a_rumour(one.pod, one.uid)))
        await scene.api.delete(PODS, "probe", scene.ns, how=DELETE_NOW)
        await eventually(lambda: asyncio.sleep(0, len(scene.freed)), until=lambda n: n == 1)
    assert [freed.uid for freed in scene.freed] == [probe.uid]
    assert await scene.held() == {0, 1, 2}


def a_rumour(key: ObjectKey, uid: str) -> Pod:
    """Facts of a pod of which only the identity matters."""
    return read_pod(KubePod(metadata=ObjectMeta(namespace=key.namespace, name=key.name, uid=uid)))


async def test_a_placement_nobody_finishes_is_fenced_and_freed(scene: Scene) -> None:
    holder = await scene.pod("p")
    decided_on = (await scene.api.get(PODS, "p", scene.ns)).metadata.resource_version
    await scene.hold(holder, 0, 1)
    async with scene.swept(LeaseGcPolicy(abandoned_after=Seconds(0.5))):
        await eventually(scene.held, until=lambda held: not held)
    with pytest.raises(Conflict):
        await scene.bind(holder, 0, 1, version=decided_on)
    pod = await scene.api.get(PODS, "p", scene.ns)
    assert pod.spec.node_name == ""
    assert pod.metadata.annotations[FENCE].startswith("sweep@")


@pytest.mark.parametrize("milli", [pytest.param(1000, id="whole"), pytest.param(400, id="shared")])
async def test_who_goes_on_behind_the_fence_keeps_the_gpu(scene: Scene, milli: int) -> None:
    holder = await scene.pod("p")
    await scene.hold(holder, 0, milli=milli)

    async def another_scheduler_places_it() -> None:
        pod = await scene.api.get(PODS, "p", scene.ns)
        await scene.hold(holder, 0, milli=milli)
        await scene.bind(holder, 0, version=pod.metadata.resource_version)

    sly: Any = ActsBehindTheFence(scene.api, another_scheduler_places_it)
    async with scene.swept(LeaseGcPolicy(abandoned_after=Seconds(0.3)), through=sly):
        await eventually(lambda: asyncio.sleep(0, sly.acted), until=bool)
        await eventually(lambda: asyncio.sleep(0, sly.asked_after), until=lambda n: n >= 1)
        await asyncio.sleep(0.5)
    assert await scene.held() == {0}
    assert scene.freed == []


class ActsBehindTheFence:
    """An API through which somebody else acts right after a pod was written to."""

    def __init__(self, api: KubeApi, act: Callable[[], Awaitable[None]]) -> None:
        self._api = api
        self._act = act
        self.acted = False
        self.asked_after = 0

    async def patch(self, resource: Any, *arguments: Any, **more: Any) -> Any:
        result = await self._api.patch(resource, *arguments, **more)
        if resource is PODS and not self.acted:
            await self._act()
            self.acted = True
        self.asked_after += resource is not PODS
        return result

    async def delete(self, *arguments: Any, **more: Any) -> None:
        self.asked_after += 1
        await self._api.delete(*arguments, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)


async def test_only_dead_shares_are_taken_out(scene: Scene) -> None:
    await scene.running("p", 0, milli=300)
    alive = await scene.running("q", 0, milli=300)
    await scene.running("r", 0, milli=300)
    await scene.api.delete(PODS, "p", scene.ns, how=DELETE_NOW)
    async with scene.swept():
        await eventually(lambda: asyncio.sleep(0, len(scene.freed)), until=lambda n: n == 1)
        await scene.api.delete(PODS, "r", scene.ns, how=DELETE_NOW)
        await eventually(lambda: asyncio.sleep(0, len(scene.freed)), until=lambda n: n == 2)
        assert (await scene.leases())["0"][SHARES] == f'{{"{alive.uid}":300}}'
        await scene.finish(alive)
        await eventually(scene.held, until=lambda held: not held)


async def test_a_gpu_still_in_use_is_in_quarantine(scene: Scene) -> None:
    holder = await scene.running("p", 0, 1)
    await scene.report(holder.uid)
    await scene.api.delete(PODS, "p", scene.ns, how=DELETE_NOW)
    async with scene.swept():
        await eventually(scene.held, until=lambda held: held == {0})
        await scene.report()
        await eventually(scene.held, until=lambda held: not held)
