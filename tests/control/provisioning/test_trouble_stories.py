"""Clouds that hang, users that delete Nodes, clocks that jump: each costs what it must, and nobody else anything."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.control.provisioning.stage import CountingCloud, Stage, play
from tests.control.provisioning.test_stories import names, told
from ullage.cloud.api import CreateRequest, CreateResult, PoolRef, Throttled
from ullage.kube.client.resources import EVENTS, NODES
from ullage.model.instance import Instance

pytestmark = [pytest.mark.story, pytest.mark.fault]

KWOK = {"name": "kwok", "parameters": {"bootSeconds": "20", "gpuSeconds": "5"}}
OTHER = {"name": "other", "parameters": {"bootSeconds": "20", "gpuSeconds": "5"}}


class Elsewhere:
    """Another provider on the same machines, with trouble of its own."""

    name = "other"
    staleness = 0.0

    def __init__(self, inner: CountingCloud) -> None:
        self._inner = inner
        self.trouble: dict[str, Any] = {}

    async def _meet(self, verb: str) -> None:
        met = self.trouble.get(verb)
        if met == "hang":
            await asyncio.Event().wait()
        elif met is not None:
            raise met

    async def create(self, request: CreateRequest) -> CreateResult:
        await self._meet("create")
        return await self._inner.create(request)

    async def delete(self, ids: Sequence[str]) -> None:
        await self._meet("delete")
        await self._inner.delete(ids)

    async def list(self, pools: Sequence[PoolRef]) -> Sequence[Instance]:
        await self._meet("list")
        return [one for one in await self._inner.list(pools) if one.pool == "bad"]

    async def templates(self, pool: PoolRef) -> Any:
        return await self._inner.templates(pool)

    async def run(self) -> None:
        return None

    async def close(self) -> None:
        return None


async def two_pools(stage: Stage) -> Elsewhere:
    """A pool of a provider with trouble, for pods that select it, and an ordinary one."""
    elsewhere = Elsewhere(stage.cloud)
    stage.others["other"] = elsewhere
    await stage.pool("bad", provider=OTHER, template__labels={"kind": "bad"})
    await stage.pool("good", template__labels={"kind": "good"})
    return elsewhere


@pytest.mark.parametrize("verb", ["create", "list"])
@pytest.mark.parametrize("met", ["hang", KeyError("Reservations")], ids=["hangs", "raises-what-it-must-not"])
def test_one_provider_in_trouble_holds_up_no_other(verb: str, met: Any) -> None:
    async def story(stage: Stage) -> None:
        elsewhere = await two_pools(stage)
        await asyncio.sleep(20)
        elsewhere.trouble[verb] = met
        await stage.pods(["unlucky"], nodeSelector={"kind": "bad"})
        await asyncio.sleep(3)
        began = stage.now
        await stage.pods(names(2), nodeSelector={"kind": "good"})
        await stage.until(lambda: so_many_wait(stage, 1 if verb == "create" else 0), 60)
        assert stage.now - began < 60, "the last list counts where there is no other"
        await asyncio.sleep(150)
        conditions = {one.type: one for one in (await stage.status("bad")).status.conditions}
        if verb == "create":
            assert (conditions["CapacityBlocked"].status, conditions["CapacityBlocked"].reason) == (
                "True",
                "OutcomeUnknown",
            )
            assert "ScaleUpFailed" in await told(stage, "NodeProvisioner")
        else:
            assert (conditions["Ready"].status, conditions["Ready"].reason) == ("False", "ProviderFailed")
        elsewhere.trouble.clear()
        await stage.served(300)
        assert len(stage.cloud.made) == 3, "and nothing is bought twice"

    play(story)


async def so_many_wait(stage: Stage, count: int) -> bool:
    return await stage.waiting() == count


def test_throttled_deletes_are_left_alone_for_as_long_as_the_cloud_says() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(scaleDownDelay="1m")
        await stage.pods(names(4))
        await stage.served()
        stage.cloud.faults.fail("delete", Throttled("slow down", retry_after=100.0), times=2)
        await stage.leave(*names(4))
        await stage.until(lambda: has_failed(stage), 200)
        first = stage.now
        await stage.has(0)
        assert stage.now - first > 190, "twice as long as it asked for"
        assert stage.cloud.delete_calls == 3, "and all nodes in one call each time"

    play(story)


async def has_failed(stage: Stage) -> bool:
    return "NodeNotRemoved" in await told(stage, "NodeProvisioner")


def test_a_node_that_a_user_deletes_costs_no_back_off_and_may_come_back() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(minGPUUtilizationPercent=0)
        await stage.pods(names(2))
        await stage.served()
        await asyncio.sleep(1200)
        victim = sorted(await stage.nodes())[0]
        await stage.api.delete(NODES, victim)
        await asyncio.sleep(60)
        assert stage.cloud.deleted == {}, "it may come back"
        assert (await stage.status()).status.back_off is None
        await stage.pods(names(2, "more"))
        await stage.served(120)
        await asyncio.sleep(400)
        assert list(stage.cloud.deleted) == [victim]
        assert (await stage.status()).status.back_off is None
        reasons = await told(stage, "NodeProvisioner")
        assert "InstanceWithoutNode" in reasons
        assert "NodeFailedToRegister" not in reasons
        (note,) = [
            one["note"] for one in (await stage.api.list(EVENTS)).items if one["reason"] == "InstanceWithoutNode"
        ]
        assert note == (
            f"1 node given back ({victim}): the Node of instance {victim} is gone, and none came back within 300 s"
        )

    play(story)


def test_a_controller_killed_while_it_deletes_does_not_take_that_for_a_failure() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(scaleDownDelay="1m", bootDeadline="2m")
        await stage.pods(names(3))
        await stage.served()
        await asyncio.sleep(300)
        stage.cloud.stop_mid_delete = stage.controller.crash
        await stage.leave(*names(3))
        await stage.has(2)
        assert not stage.cloud.deleted, "its Node is gone, and its machine is there"
        stage.controller.start()
        await stage.until(lambda: nothing_is_left(stage), 900)
        assert (await stage.status()).status.back_off is None
        assert "NodeFailedToRegister" not in await told(stage, "NodeProvisioner")

    play(story)


async def nothing_is_left(stage: Stage) -> bool:
    return len(stage.cloud.deleted) == len(stage.cloud.made)


def test_a_clock_an_hour_ahead_for_some_seconds_changes_nothing() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool("idle")
        await stage.pods(names(3))
        await stage.served()
        await stage.leave(*names(3))
        await stage.until(lambda: has_tainted(stage, 3), 60)
        await stage.pool("boots", provider={"name": "kwok", "parameters": {"bootSeconds": "200"}}, minSize=2)
        await asyncio.sleep(10)
        assert len(stage.cloud.made) == 5
        stage.clocks.skew = 3600.0
        await asyncio.sleep(9)
        assert stage.cloud.deleted == {}
        stage.clocks.skew = 0.0
        await asyncio.sleep(60)
        assert stage.cloud.deleted == {}
        for name in ("idle", "boots"):
            assert (await stage.status(name)).status.back_off is None
        await stage.has(2)
        assert 290 < min(stage.cloud.deleted.values()) - max(stage.cloud.made.values()) < 400

    play(story)


async def has_tainted(stage: Stage, count: int) -> bool:
    return await stage.tainted() == count


def test_a_clock_an_hour_behind_buys_all_the_same() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(scaleUpBatch="10s")
        await asyncio.sleep(20)
        stage.clocks.skew = -3600.0
        await stage.pods(names(3))
        assert await stage.served(120) < 120

    play(story)
