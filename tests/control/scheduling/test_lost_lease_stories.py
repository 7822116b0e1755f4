"""Leases that users delete are made again for the pods that run on them."""

import asyncio
import random

import pytest

from tests.control.scheduling.fleet import split, submit
from tests.control.scheduling.stage import LEASE_NAMESPACE, NS, Setting, Stage, play
from ullage.act.leases import LeaseClient, LeaseHolder, LeaseRequest, LeasesAcquired
from ullage.kube.client.resources import LEASES, PODS
from ullage.model.fact_event import ObjectKey

pytestmark = pytest.mark.story

NODE = "node-00"
MIG = {"exclusivity": "MIG", "memory": "10Gi"}
SHARED = {"exclusivity": "Shared", "memory": "20Gi"}


async def delete_leases(stage: Stage, chance: random.Random | None = None) -> None:
    for lease in (await stage.api.list(LEASES, LEASE_NAMESPACE)).items:
        if chance is None or chance.random() < 0.5:
            await stage.api.delete(LEASES, lease.metadata.name, LEASE_NAMESPACE)


async def nothing_wrong(stage: Stage) -> bool:
    return not await stage.wrong()


def test_a_deleted_lease_of_a_running_pod_is_made_again_within_seconds() -> None:
    async def story(stage: Stage) -> None:
        await stage.becomes(NODE, split(NODE, gpus=(6, 7), into=3))
        await submit(stage.api, NS, "whole", 2)
        await submit(stage.api, NS, "part", 1, requested=0, devices=SHARED)
        await submit(stage.api, NS, "other", 1, requested=0, devices=SHARED)
        await submit(stage.api, NS, "slices", 2, requested=0, devices=MIG)
        await stage.at_rest(30)
        before = {lease.name: lease.holds for lease in (await stage.leases()).values()}
        await delete_leases(stage)
        took = await stage.until(lambda: nothing_wrong(stage), 60)
        assert took < 15
        assert {lease.name: lease.holds for lease in (await stage.leases()).values()} == before
        await stage.delete("whole", "part", "other", "slices")
        await asyncio.sleep(30)
        assert await stage.leases() == {}

    play(Setting(nodes=1, leases_vanish=True), story)


def test_a_lease_of_a_pod_that_ends_is_not_made_again() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "p", 2)
        await stage.at_rest(30)
        await delete_leases(stage)
        await stage.delete("p")
        await asyncio.sleep(60)
        assert await stage.leases() == {}

    play(Setting(nodes=1, leases_vanish=True), story)


def test_whoever_holds_the_gpu_meanwhile_keeps_it() -> None:
    """A bind under way counts on its Lease: two pods on one GPU are told of, and not made three."""

    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "p", 1)
        await stage.at_rest(30)
        (device,) = await stage.leases()
        await delete_leases(stage)
        book = LeaseClient(stage.api, LEASE_NAMESPACE, stage.clock)
        await submit(stage.api, NS, "q", 1, pod={"schedulingGates": [{"name": "example.com/wait"}]})
        rival = LeaseHolder(ObjectKey(NS, "q"), (await stage.api.get(PODS, "q", NS)).metadata.uid)
        assert isinstance(await book.reserve(rival, LeaseRequest(NODE, (device,))), LeasesAcquired)
        await asyncio.sleep(30)
        assert [hold.uid for hold in (await stage.leases())[device].holds] == [rival.uid]
        await stage.delete("q")
        await stage.until(lambda: nothing_wrong(stage), 90)

    play(Setting(nodes=1, leases_vanish=True), story)


@pytest.mark.fault
@pytest.mark.parametrize("seed", range(3))
def test_leases_deleted_all_the_time_cost_nobody_his_gpus(seed: int) -> None:
    async def story(stage: Stage) -> None:
        chance = random.Random(seed)
        for number in range(24):
            await submit(stage.api, NS, f"p{number}", chance.choice([1, 1, 2]))
            if number % 3 == 0:
                await delete_leases(stage, chance)
                await asyncio.sleep(chance.uniform(0, 4))
        await stage.at_rest(240)

    play(Setting(nodes=6, schedulers=2, seed=seed, leases_vanish=True), story)
