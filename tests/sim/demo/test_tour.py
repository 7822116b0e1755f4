"""The tour shows what it says it shows: each of its moments is found on the API server, and in this order."""

import asyncio

import pytest

from tests.sim.demo.onlooker import NS, Onlooker, look_on
from ullage.kube.client.resources import NODE_PROVISIONERS, PODS
from ullage.model.allocation import ALLOCATED, parse_allocation
from ullage.model.device import DeviceHealth
from ullage.model.resources import GPU
from ullage.sim.demo.tour import TOUR

pytestmark = pytest.mark.story

AT = {moment.name: moment.at for moment in TOUR.story_steps}


async def _claims_land_in_one_island(eye: Onlooker) -> float:
    async def bound() -> bool:
        return (await eye.claim("fine-tune")).status.phase == "Bound"

    await eye.world.sleep_until(AT["claims"] + 1)
    moment = await eye.until(bound, within=30)
    claim = await eye.claim("fine-tune")
    devices = await eye.devices(claim.status.node_name)
    islands = {device.island for device in devices if device.id in claim.status.gpu_ids}
    assert len(claim.status.gpu_ids) == 4
    assert len(islands) == 1
    pod = await eye.pod("fine-tune")
    assert len(await eye.leased_to(pod)) == 4
    assert pod.spec.scheduler_name == "gpu-scheduler"  # by the webhook: its manifest names neither this nor a request
    assert pod.spec.containers[0].resources.limits[GPU] == "4"
    return moment


async def _a_forgery_stays_outside(eye: Onlooker) -> float:
    await eye.world.sleep_until(AT["forgery"] + 1)
    pod = await eye.pod("notebook")
    assert parse_allocation(pod.metadata.annotations[ALLOCATED]).devices == (await eye.claim("notebook")).status.gpu_ids
    assert any("ForeignOutput" in one.text for one in eye.spoken if one.word == "Refused")
    return eye.world.elapsed


async def _a_gang_waits_and_nodes_are_bought(eye: Onlooker) -> float:
    async def coming() -> bool:
        return bool((await eye.world.api.get(NODE_PROVISIONERS, "train")).status.coming_size)

    await eye.world.sleep_until(AT["gang"] + 1)
    await eye.until(coming, within=60)
    workers = await eye.pods("pretrain")
    assert len(workers) == 4
    assert not any(worker.spec.node_name for worker in workers)
    assert await eye.leased_to(*workers) == []
    assert len(await eye.nodes("train")) == 2

    async def all_bound() -> bool:
        there = [worker for worker in await eye.pods("pretrain") if worker.spec.node_name]
        assert len(there) in (0, 4), "a gang in part"
        return len(there) == 4

    moment = await eye.until(all_bound, within=300)
    assert len(await eye.leased_to(*await eye.pods("pretrain"))) == 32
    return moment


async def _the_pool_grows_with_the_rush(eye: Onlooker) -> float:
    async def served() -> bool:
        apps = [pod for app in ("chat", "embed", "search") for pod in await eye.pods(app)]
        return len(apps) == 26 and all(pod.spec.node_name for pod in apps)

    await eye.world.sleep_until(AT["rush"])
    moment = await eye.until(served, within=300)
    assert len(await eye.nodes("serve")) == 7
    return moment


async def _a_gpu_dies(eye: Onlooker) -> float:
    async def spoken() -> bool:
        return bool(await eye.events("GpuUnhealthy"))

    await eye.world.sleep_until(AT["death"] - 1)
    claim = await eye.claim("fine-tune")
    moment = await eye.until(spoken, within=10)
    (event,) = await eye.events("GpuUnhealthy")
    assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("Pod", "fine-tune")
    dead = [one.id for one in await eye.devices(claim.status.node_name) if one.health is DeviceHealth.UNHEALTHY]
    assert dead == [claim.status.gpu_ids[0]]
    return moment


async def _empty_nodes_go_together(eye: Onlooker) -> float:
    async def several() -> bool:
        return len(await eye.draining()) >= 2

    await eye.until(several, within=300)

    async def gone() -> bool:
        await eye.draining()
        return len(await eye.nodes("train")) == 2

    return await eye.until(gone, within=120)


async def _the_dead_gpu_is_avoided(eye: Onlooker) -> float:
    broken = {
        (node.metadata.name, device.id)
        for node in await eye.nodes("train")
        for device in await eye.devices(node.metadata.name)
        if device.health is not DeviceHealth.HEALTHY
    }
    before = (await eye.pod("fine-tune")).metadata.uid

    async def again() -> bool:
        pods = [one for one in (await eye.world.api.list(PODS, NS)).items if one.metadata.name == "fine-tune"]
        return any(one.metadata.uid != before and one.spec.node_name for one in pods)

    await eye.world.sleep_until(AT["restart"])
    moment = await eye.until(again, within=120)
    given = parse_allocation((await eye.pod("fine-tune")).metadata.annotations[ALLOCATED])
    assert len(broken) == 1
    assert not broken & {(given.node, gpu) for gpu in given.devices}
    return moment


async def _load_leaves_and_nodes_are_drained(eye: Onlooker) -> float:
    await eye.world.sleep_until(AT["ebb"])
    eye.most_draining = 0
    evicted: set[str] = set()

    async def settled() -> bool:
        assert await eye.budgets_kept()
        evicted.update(one["regarding"]["name"] for one in await eye.events("PodEvicted"))
        return not await eye.draining() and len(await eye.nodes("serve")) <= 4

    moment = await eye.until(settled, within=600)
    assert eye.most_draining >= 2
    assert evicted
    running = [pod for app in ("chat", "embed") for pod in await eye.pods(app)]
    assert len(running) == 13
    assert not evicted & {pod.metadata.name for pod in running}
    bought = [one for one in eye.spoken if one.word == "NodesLaunched" and one.at >= AT["ebb"]]
    assert bought == []
    return moment


async def _the_gpu_is_repaired(eye: Onlooker) -> float:
    await eye.world.sleep_until(AT["repair"])

    async def well() -> bool:
        found = [await eye.devices(node.metadata.name) for node in await eye.nodes("train")]
        return all(device.health is DeviceHealth.HEALTHY for devices in found for device in devices)

    moment = await eye.until(well, within=30)
    await asyncio.sleep(5)
    offered = {str(node.status.allocatable[GPU]) for node in await eye.nodes("train")}
    assert offered == {"8"}
    return moment


LOOKS = (
    _claims_land_in_one_island,
    _a_forgery_stays_outside,
    _a_gang_waits_and_nodes_are_bought,
    _the_pool_grows_with_the_rush,
    _a_gpu_dies,
    _empty_nodes_go_together,
    _the_dead_gpu_is_avoided,
    _load_leaves_and_nodes_are_drained,
    _the_gpu_is_repaired,
)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_every_moment_comes_in_its_order(seed: int) -> None:
    reached: list[float] = []

    async def seen(eye: Onlooker) -> None:
        for look in LOOKS:
            moment = await look(eye)
            assert not reached or moment >= reached[-1], look.__name__
            reached.append(moment)

    spoken = look_on(TOUR, seen, seed=seed)
    assert reached[-1] / 30 < 120, "all of it within two minutes at the default speed"
    assert [one.text for one in spoken if one.word == "Skipped"] == []
