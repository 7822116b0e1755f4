"""The scheduler on the simulated API server, in virtual time: single pods."""

import asyncio
import random

import pytest

from tests.control.scheduling.fleet import submit
from tests.control.scheduling.stage import LEASE_NAMESPACE, NS, Setting, Stage, play
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import DEPLOYMENTS, GPU_CLAIMS, GPU_QUOTAS, LEASES, PODS
from ullage.model.allocation import CLAIM_TEMPLATE
from ullage.testing.builders import a_pod, a_workload
from ullage.testing.checks.placement import islands_of

pytestmark = pytest.mark.story


def test_claims_land_on_islands_and_everything_said_of_them_agrees() -> None:
    async def story(stage: Stage) -> None:
        for number, gpus in enumerate([4, 4, 2, 1, 8, 1, 2, 4]):
            await submit(stage.api, NS, f"p{number}", gpus)
        await stage.at_rest(15)
        assert len(await stage.bound()) == 8
        reading = await stage.read()
        for pod in reading.pods:
            assert len(islands_of(reading, pod)) == (1 if len(pod.gpu_ids) <= 4 else 2)
        assert (await stage.events("p0"))["Scheduled"].startswith("Successfully assigned default/p0 to node-")

    play(Setting(nodes=4), story)


def test_a_pod_that_does_not_fit_says_why_and_is_placed_when_room_appears() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "first", 8)
        await asyncio.sleep(5)
        await submit(stage.api, NS, "second", 8)
        await asyncio.sleep(5)
        condition = await stage.condition("second")
        assert (condition.status, condition.reason) == ("False", "Unschedulable")
        assert ". 0/1 nodes fit: 1 " in condition.message
        await stage.delete("first")
        await stage.at_rest(30)
        assert await stage.bound() == {"second": "node-00"}

    play(Setting(nodes=1), story)


def test_leases_of_pods_that_are_gone_are_swept() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "p", 2)
        await asyncio.sleep(5)
        assert len((await stage.api.list(LEASES, LEASE_NAMESPACE)).items) == 2
        await stage.delete("p")
        await asyncio.sleep(30)
        assert (await stage.api.list(LEASES, LEASE_NAMESPACE)).items == []

    play(Setting(nodes=1), story)


def test_gates_hold_a_pod_until_they_are_lifted() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "other", 8)
        pod = a_pod("gated", gpus=1, schedulerName="gpu-scheduler", schedulingGates=[{"name": "example.com/wait"}])
        await stage.api.create(PODS, pod, NS)
        await asyncio.sleep(30)
        assert set(await stage.bound()) == {"other"}
        await stage.api.patch(PODS, "gated", MergePatch({"spec": {"schedulingGates": None}}), NS)
        await stage.at_rest(10)
        assert set(await stage.bound()) == {"gated", "other"}

    play(Setting(nodes=2), story)


def test_a_node_that_falls_silent_takes_nothing_until_it_reports_again() -> None:
    async def story(stage: Stage) -> None:
        stage.silent.add("node-00")
        await asyncio.sleep(120)
        await submit(stage.api, NS, "p", 1)
        await asyncio.sleep(20)
        assert await stage.bound() == {}
        assert "InventoryStale" in (await stage.condition("p")).message
        assert "InventoryStale" in (await stage.claim("p")).status.message
        stage.silent.clear()
        took = await stage.until(stage.bound, 60)
        assert took < 45, "a report comes within half a minute, and wakes who waits for it"
        await stage.at_rest(10)

    play(Setting(nodes=1), story)


def test_a_quota_lets_through_what_it_allows_and_the_rest_when_it_grows() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(GPU_QUOTAS, {"metadata": {"name": "q"}, "spec": {"gpus": 4}}, NS)
        await asyncio.sleep(1)
        for number in range(6):
            await submit(stage.api, NS, f"p{number}", 1)
        await asyncio.sleep(10)
        assert len(await stage.bound()) == 4
        waiting = sorted({f"p{number}" for number in range(6)} - set(await stage.bound()))
        for name in waiting:
            assert "QuotaExceeded" in (await stage.condition(name)).message
            assert "QuotaExceeded" in (await stage.events(name))["FailedScheduling"]
        await stage.delete(next(iter(await stage.bound())))
        await stage.until(lambda: enough(stage, 4), 60)
        await stage.api.patch(GPU_QUOTAS, "q", MergePatch({"spec": {"gpus": 8}}), NS)
        await stage.at_rest(30)
        assert len(await stage.bound()) == 5

    async def enough(stage: Stage, count: int) -> bool:
        return len(await stage.bound()) == count

    play(Setting(nodes=1), story)


def test_a_deployment_with_a_template_gives_every_pod_a_claim_of_its_own() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(GPU_CLAIMS, {"metadata": {"name": "t"}, "spec": {"devices": {"count": 2}}}, NS)
        template = a_pod("", annotations={CLAIM_TEMPLATE: "t"}, gpus=2, schedulerName="gpu-scheduler")
        labels = {"app": "web"}
        made = a_workload("web", labels=labels, pod=template["spec"], replicas=3)
        made["spec"]["template"]["metadata"]["annotations"] = {CLAIM_TEMPLATE: "t"}
        await stage.api.create(DEPLOYMENTS, made, NS)

        async def all_there() -> bool:
            return len(await stage.bound()) == 3

        await stage.until(all_there, 60)
        await stage.at_rest(30)
        copies = [one for one in (await stage.api.list(GPU_CLAIMS, NS)).items if one.metadata.name != "t"]
        assert len(copies) == 3
        assert {one.status.phase for one in copies} == {"Bound"}
        owners = {one.metadata.owner_references[0].uid for one in copies}
        assert owners == {one.uid for one in (await stage.read()).pods}
        await stage.api.scale(DEPLOYMENTS, "web", NS, 1)

        async def two_are_gone() -> bool:
            return len((await stage.api.list(GPU_CLAIMS, NS)).items) == 2

        await stage.until(two_are_gone, 120)
        await stage.at_rest(60)

    play(Setting(nodes=1), story)


@pytest.mark.fault
@pytest.mark.parametrize("seed", range(5))
def test_two_schedulers_at_once_never_give_a_gpu_twice(seed: int) -> None:
    async def story(stage: Stage) -> None:
        chance = random.Random(seed)
        for number in range(40):
            await submit(stage.api, NS, f"p{number}", chance.choice([1, 1, 2, 4]))
        await stage.at_rest(240)
        reading = await stage.read()
        assert sum(len(pod.gpu_ids) for pod in reading.pods) >= 40

    play(Setting(nodes=6, schedulers=2, seed=seed), story)
