"""Clouds that fail: nothing is bought twice, nothing leaks, no node is lost."""

import asyncio
import json
import random
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.contract.wire.asking import TABLE
from tests.control.provisioning.stage import Stage, play
from tests.control.provisioning.test_stories import names, told
from ullage.cloud.api import NoCapacity, OutcomeUnknown, Throttled
from ullage.kube.client.resources import NODE_PROVISIONERS
from ullage.kube.client.transport import Request
from ullage.model.provisioner import FleetBudget
from ullage.sim.apiserver import InMemoryTransport

pytestmark = [pytest.mark.story, pytest.mark.fault]


def test_a_create_that_times_out_but_succeeded_is_not_repeated() -> None:
    async def story(stage: Stage) -> None:
        stage.cloud.faults.lose_answer("create")
        await stage.pool()
        await stage.pods(names(4))
        await stage.served()
        await asyncio.sleep(120)
        assert len(stage.cloud.made) == len(await stage.nodes()) == 4
        assert (await stage.status()).status.purchase is None

    play(story)


def test_a_create_that_times_out_and_failed_is_repeated() -> None:
    async def story(stage: Stage) -> None:
        stage.cloud.faults.fail("create", OutcomeUnknown("no answer"), times=2)
        await stage.pool()
        await stage.pods(names(4))

        async def is_said() -> bool:
            conditions = {one.type: one for one in (await stage.status()).status.conditions}
            blocked = conditions.get("CapacityBlocked")
            return blocked is not None and (blocked.status, blocked.reason) == ("True", "OutcomeUnknown")

        await stage.until(is_said, 30)
        status = (await stage.status()).status
        assert (status.purchase and status.purchase.count, status.back_off and status.back_off.failure) == (
            4,
            "OutcomeUnknown",
        )
        await stage.served()
        assert len(stage.cloud.made) == 4
        assert "ScaleUpFailed" in await told(stage, "NodeProvisioner")

    play(story)


def test_no_capacity_in_one_pool_falls_through_to_the_next() -> None:
    async def story(stage: Stage) -> None:
        kwok = {"name": "kwok", "parameters": {"capacity": "2"}}
        await stage.pool("cheap", template__pricePerHour="1", provider=kwok)
        await stage.pool("dear", template__pricePerHour="9")
        await stage.pods(names(5))
        assert await stage.served() < 60
        made = [name.partition("-")[0] for name in sorted(stage.cloud.made)]
        assert made == ["cheap"] * 2 + ["dear"] * 3
        conditions = {one.type: one for one in (await stage.status("cheap")).status.conditions}
        assert (conditions["CapacityBlocked"].status, conditions["CapacityBlocked"].reason) == ("True", "NoCapacity")
        assert "CapacityBlocked" in await told(stage, "NodeProvisioner")

    play(story)


def test_throttling_only_delays() -> None:
    async def story(stage: Stage) -> None:
        stage.cloud.faults.fail("create", Throttled("slow down", retry_after=20.0), times=3)
        await stage.pool()
        await stage.pods(names(3))
        assert 60 < await stage.served() < 200
        assert len(stage.cloud.made) == 3

    play(story)


def test_a_node_that_never_joins_is_replaced_and_reported() -> None:
    async def story(stage: Stage) -> None:
        stage.cloud.faults.never_joins = 1
        await stage.pool(bootDeadline="60s")
        await stage.pods(names(3))
        await stage.served(1200)
        assert (len(stage.cloud.made), len(stage.cloud.deleted), len(await stage.nodes())) == (4, 1, 3)
        (lost,) = stage.cloud.deleted
        assert lost not in await stage.nodes()
        assert "NodeFailedToRegister" in await told(stage, "NodeProvisioner")

    play(story)


def test_a_delete_that_fails_twice_succeeds_in_the_end() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(scaleDownDelay="1m")
        await stage.pods(names(2))
        await stage.served()
        stage.cloud.faults.fail("delete", OutcomeUnknown("no answer"), times=2)
        await stage.leave(*names(2))
        await stage.has(0)
        assert (len(stage.cloud.made), len(stage.cloud.deleted)) == (2, 2)

    play(story)


def test_a_list_that_is_old_buys_nothing_and_loses_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.cloud.lag = 30.0
        await stage.pool(scaleDownDelay="1m")
        for round_ in range(3):
            await stage.pods(names(4, f"r{round_}"))
            await stage.served()
            assert len(stage.cloud.made) == 4 * (round_ + 1)
            await stage.leave(*names(4, f"r{round_}"))
            await stage.has(0)
            await asyncio.sleep(120)
        assert len(stage.cloud.made) == len(stage.cloud.deleted) == 12

    play(story)


def test_a_cloud_that_cannot_be_listed_is_left_alone_until_it_can() -> None:
    async def story(stage: Stage) -> None:
        stage.cloud.faults.fail("list", OutcomeUnknown("no answer"), times=5)
        await stage.pool()
        await stage.pods(names(2))
        assert await stage.served() > 40
        assert len(stage.cloud.made) == 2

    play(story)


def test_what_was_bought_while_lists_fail_is_not_bought_again() -> None:
    """Minutes go by: an instance that no list has is still one that was bought, as long as no list could have it."""

    async def story(stage: Stage) -> None:
        await stage.pool(provider={"name": "kwok", "parameters": {"bootSeconds": "400"}})
        await asyncio.sleep(30)
        stage.cloud.faults.fail("list", OutcomeUnknown("no answer"), times=30)
        await stage.pods(names(2))
        await stage.served(900)
        assert len(stage.cloud.made) == 2

    play(story)


def test_a_provider_that_cannot_be_had_is_named_in_the_status() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool("lost", provider={"name": "nowhere"})
        await stage.pool()
        await stage.pods(names(2))
        await stage.served()
        ready = {one.type: one for one in (await stage.status("lost")).status.conditions}["Ready"]
        assert (ready.status, ready.reason) == ("False", "ProviderFailed")
        assert "there is no provider 'nowhere'; there are aws" in ready.message
        assert (await stage.status()).status.current_size == 2, "others go on"

    play(story)


def test_a_budget_is_never_passed_whatever_waits() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool()
        await stage.pods(names(9))
        await asyncio.sleep(300)
        assert (len(stage.cloud.made), await stage.waiting()) == (6, 3)

    play(story, budget=FleetBudget(gpus=6))


def test_a_protected_node_stays() -> None:
    async def story(stage: Stage) -> None:
        from ullage.kube.client.api import MergePatch
        from ullage.kube.client.resources import NODES

        await stage.pool(scaleDownDelay="1m")
        await stage.pods(names(3))
        await stage.served()
        kept = sorted(await stage.nodes())[0]
        patch = MergePatch({"metadata": {"annotations": {"gpu.scheduling/scale-down-disabled": "true"}}})
        await stage.api.patch(NODES, kept, patch)
        await stage.leave(*names(3))
        await stage.has(1)
        await asyncio.sleep(900)
        assert list(await stage.nodes()) == [kept]

    play(story)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.full) for n in range(2, 50))])
def test_crashes_at_any_moment_lead_to_the_same_end(seed: int) -> None:
    """SIGKILL at random moments while the pool grows and shrinks."""

    async def story(stage: Stage) -> None:
        rng = random.Random(seed)
        await stage.pool(scaleDownDelay="1m", bootDeadline="3m")
        crashing = asyncio.ensure_future(_crash(stage, rng))
        await stage.pods(names(8))
        await stage.served(1200)
        made = len(stage.cloud.made)
        await stage.leave(*names(8)[2:])
        await stage.has(2, 1800)
        await asyncio.sleep(rng.uniform(0, 60))
        crashing.cancel()
        await asyncio.gather(crashing, return_exceptions=True)
        if not stage.controller.alive:
            stage.controller.start()
        await asyncio.sleep(300)
        assert (made, len(stage.cloud.made), len(await stage.nodes())) == (8, 8, 2)
        assert await stage.tainted() == 0

    play(story, seed=seed + 1)


def test_a_crash_between_the_deletion_of_a_machine_and_that_of_its_node_leaves_no_node() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(scaleDownDelay="1m")
        await stage.pods(names(1))
        await stage.served()
        stage.cloud.stop_after_delete = stage.controller.crash
        await stage.leave(*names(1))

        async def is_between() -> bool:
            return not stage.controller.alive

        between = await stage.until(is_between)
        assert (await stage.tainted(), len(stage.cloud.deleted)) == (1, 1)
        stage.controller.start()
        assert await stage.has(0) - between > 60, "lists may lag"
        assert (len(stage.cloud.made), stage.cloud.delete_calls) == (1, 1), "the cloud is asked nothing more"

    play(story)


async def _crash(stage: Stage, rng: random.Random) -> None:
    while True:
        await asyncio.sleep(rng.expovariate(1 / 8.0))
        stage.controller.crash()
        await asyncio.sleep(rng.uniform(0, 3))
        stage.controller.start()


def test_no_capacity_anywhere_is_said_and_tried_again() -> None:
    async def story(stage: Stage) -> None:
        stage.cloud.faults.fail("create", NoCapacity("none left"), times=2)
        await stage.pool()
        await stage.pods(names(2))
        await asyncio.sleep(30)
        assert await stage.waiting() == 2
        assert await stage.served() > 120 + 240
        assert len(stage.cloud.made) == 2

    play(story)


async def _listed(stage: Stage) -> dict[str, dict[str, Any]]:
    """The table that `kubectl get np` prints, by pool."""
    path = f"/apis/gpu.scheduling/v1/{NODE_PROVISIONERS.plural}"
    answer = await InMemoryTransport(stage.server).send(Request("GET", path, accept=TABLE))
    table = json.loads(answer.body)
    names = [column["name"] for column in table["columnDefinitions"]]
    return {row["cells"][0]: dict(zip(names, row["cells"], strict=True)) for row in table["rows"]}


def test_who_lists_pools_sees_back_offs_and_how_many_pods_wait_for_them() -> None:
    async def story(stage: Stage) -> None:
        stage.cloud.faults.fail("create", NoCapacity("none left"), times=1)
        await stage.pool("blocked", template__labels={"kind": "wanted"})
        await stage.pool("other", template__labels={"kind": "other"})
        await stage.pods(names(3), nodeSelector={"kind": "wanted"})
        await asyncio.sleep(30)
        table = await _listed(stage)
        assert {name: (row["BackOff"], row["Unmet"]) for name, row in table.items()} == {
            "blocked": ("NoCapacity", 3),
            "other": ("NoFailure", 0),
        }
        await stage.served()
        row = (await _listed(stage))["blocked"]
        assert (row["BackOff"], row["Unmet"]) == ("NoFailure", 0)

    play(story)


def test_nodes_are_named_in_the_log() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(scaleDownDelay="1m")
        await stage.pods(names(2))
        await stage.served()
        await stage.leave(*names(2))
        await stage.has(0)
        every = ", ".join(sorted(stage.cloud.made))
        named = {(line["event"], line.get("kind", ""), line.get("names")) for line in lines}
        steps = {("step", kind, every) for kind in ("TaintForDeletion", "TerminateInstance")}
        assert steps | {("bought", "", every)} <= named

    with capture_logs() as lines:
        play(story)
