"""MIG instances are leased by UUID: one holder each, whoever schedules, and whatever becomes of the GPUs."""

import asyncio
import random

import pytest
from msgspec.structs import replace

from tests.control.scheduling.fleet import devices, split, submit
from tests.control.scheduling.stage import LEASE_NAMESPACE, NS, Setting, Stage, play
from ullage.kube.client.resources import LEASES

pytestmark = pytest.mark.story

NODE = "node-00"
SLICE = {"exclusivity": "MIG", "memory": "10Gi"}


async def submit_slice(stage: Stage, name: str, count: int = 1) -> None:
    await submit(stage.api, NS, name, count, requested=0, devices=SLICE)


async def waits_for(stage: Stage, *pods: str) -> None:
    async def bound() -> bool:
        return set(pods) <= set(await stage.bound())

    await stage.until(bound, 60)


def test_an_instance_is_leased_to_its_pod_and_swept_when_that_is_gone() -> None:
    async def story(stage: Stage) -> None:
        await stage.becomes(NODE, split(NODE))
        await submit_slice(stage, "one")
        await submit_slice(stage, "three", 3)
        await stage.at_rest(30)
        reading = await stage.read()
        given = {pod.key.name: pod.gpu_instances for pod in reading.pods}
        held = {hold.instance: hold.uid for lease in reading.leases for hold in lease.holds}
        assert {len(given["one"]), len(given["three"])} == {1, 3}
        assert held == {uuid: pod.uid for pod in reading.pods for uuid in pod.gpu_instances}
        await stage.delete("one", "three")
        await stage.until(lambda: nothing_is_leased(stage), 30)

    play(Setting(nodes=1), story)


async def writes(stage: Stage) -> int:
    """Done so far, by anybody."""
    return int((await stage.api.list(LEASES, LEASE_NAMESPACE)).resource_version)


async def nothing_is_leased(stage: Stage) -> bool:
    return not await stage.leases()


@pytest.mark.fault
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
def test_two_schedulers_at_once_never_give_an_instance_twice(seed: int) -> None:
    """Thirty slices for twenty-eight, and whole GPUs and shares beside them."""

    async def story(stage: Stage) -> None:
        chance = random.Random(seed)
        for node in (NODE, "node-01"):
            await stage.becomes(node, split(node, gpus=(0, 1)))
        for number in range(30):
            await submit_slice(stage, f"slice{number:02d}")
            if not number % 5:
                await submit(stage.api, NS, f"whole{number}", chance.choice([1, 2]))
        await stage.at_rest(240)
        given = [uuid for pod in (await stage.read()).pods for uuid in pod.gpu_instances]
        assert len(given) == len(set(given)) == 28
        await stage.delete(*(name for name in await stage.bound() if name.startswith("slice")))
        await stage.at_rest(240)
        waited = [name for name in await stage.bound() if name.startswith("slice")]
        assert len(waited) == 2, "those that waited have the places of those that went"

    play(Setting(nodes=2, schedulers=2, seed=seed), story)


def test_after_mig_is_switched_off_the_gpu_is_given_whole() -> None:
    async def story(stage: Stage) -> None:
        await stage.becomes(NODE, split(NODE))
        for number in range(8 * 7):
            await submit_slice(stage, f"s{number}")
        await stage.at_rest(60)
        assert len(await stage.bound()) == 8 * 7
        await stage.delete(*await stage.bound())
        await stage.becomes(NODE, devices(NODE))
        await submit(stage.api, NS, "whole", 8)
        await waits_for(stage, "whole")
        await stage.at_rest(30)

    play(Setting(nodes=1), story)


def test_who_holds_an_instance_keeps_the_gpu_though_mig_is_off_and_nobody_tries_in_vain() -> None:
    async def story(stage: Stage) -> None:
        await stage.becomes(NODE, split(NODE, gpus=(0,)))
        await submit_slice(stage, "holder")
        await waits_for(stage, "holder")
        await stage.becomes(NODE, devices(NODE))
        await submit(stage.api, NS, "whole", 8)
        await asyncio.sleep(5)
        before = await writes(stage)
        await asyncio.sleep(300)
        assert "TooFewGpus" in (await stage.condition("whole")).message
        assert await writes(stage) - before < 40, "agents report, and nobody tries what cannot be had"
        await stage.delete("holder")
        await waits_for(stage, "whole")

    play(Setting(nodes=1), story)


def test_who_holds_the_gpu_keeps_it_though_it_was_split() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "whole", 8)
        await waits_for(stage, "whole")
        await stage.becomes(NODE, split(NODE))
        await submit_slice(stage, "slice")
        await asyncio.sleep(60)
        assert set(await stage.bound()) == {"whole"}
        assert "NoMigInstance" in (await stage.condition("slice")).message
        await stage.delete("whole")
        await waits_for(stage, "slice")

    play(Setting(nodes=1), story)


def test_instances_made_again_are_free_and_the_old_ones_are_not_offered() -> None:
    async def story(stage: Stage) -> None:
        await stage.becomes(NODE, split(NODE, gpus=(0,), into=2))
        await submit_slice(stage, "old")
        await waits_for(stage, "old")
        await stage.becomes(NODE, split(NODE, gpus=(0,), into=3, made="b"))
        for number in range(4):
            await submit_slice(stage, f"new{number}")
        await waits_for(stage, "old", "new0", "new1", "new2")
        await asyncio.sleep(30)
        assert len(await stage.bound()) == 4
        seen = [uuid for pod in (await stage.read()).pods for uuid in pod.gpu_instances]
        assert len(set(seen)) == 4
        assert sum("-b" in uuid for uuid in seen) == 3

    play(Setting(nodes=1), story)


def test_an_instance_still_in_use_is_in_quarantine() -> None:
    async def story(stage: Stage) -> None:
        parted = split(NODE, gpus=(0,), into=1)
        await stage.becomes(NODE, parted)
        await submit_slice(stage, "first")
        await waits_for(stage, "first")
        (uid,) = (pod.uid for pod in (await stage.read()).pods)
        await stage.becomes(NODE, (replace(parted[0], in_use_by=(uid,)), *parted[1:]))
        await stage.delete("first")
        await submit_slice(stage, "second")
        await asyncio.sleep(60)
        assert await stage.bound() == {}
        await stage.becomes(NODE, parted)
        await waits_for(stage, "second")

    play(Setting(nodes=1), story)


def test_a_lease_that_names_nobody_is_swept_and_keeps_nobody_off_for_long() -> None:
    """As versions that did not lease instances left them."""

    async def story(stage: Stage) -> None:
        notes = {"gpu.scheduling/node": NODE, "gpu.scheduling/device": "0"}
        meta = {"name": "gpu-node-00-0", "labels": {"gpu.scheduling/managed": "true"}, "annotations": notes}
        spec = {"holderIdentity": "shared", "renewTime": "2020-01-01T00:00:00.000000Z"}
        await stage.api.create(LEASES, {"metadata": meta, "spec": spec}, LEASE_NAMESPACE)
        await submit(stage.api, NS, "whole", 8)
        await waits_for(stage, "whole")

    play(Setting(nodes=1), story)


@pytest.mark.parametrize("last", [1, 3], ids=["a-slice", "three-slices"])
def test_a_slice_that_becomes_free_goes_at_once_to_who_waited_longest(last: int) -> None:
    """Those who wait are in back-off when it does: others came and went, and were tried for in vain."""

    async def story(stage: Stage) -> None:
        await stage.becomes(NODE, split(NODE, gpus=(0,)))
        await submit_slice(stage, "first", 7 - last)
        await submit_slice(stage, "last", last)
        await waits_for(stage, "first", "last")
        await submit_slice(stage, "old", last)
        await asyncio.sleep(2)
        for number in range(5):  # whole GPUs beside it are taken and let go: back-offs grow to ten seconds
            await submit(stage.api, NS, f"other{number}", 4)
            await waits_for(stage, f"other{number}")
            await stage.delete(f"other{number}")
            await asyncio.sleep(11)
        await stage.delete("last")
        await submit_slice(stage, "newcomer", last)
        assert await stage.until(lambda: is_bound(stage, "old"), 60) < 2.0
        assert "newcomer" not in await stage.bound()

    play(Setting(nodes=1), story)


async def is_bound(stage: Stage, pod: str) -> bool:
    return pod in await stage.bound()
