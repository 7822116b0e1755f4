"""Deletions of instances: one call for those asked for together, and peace for a cloud that asks for it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.cloud.benches import Requests
from ullage.act.concurrency import ended
from ullage.act.instance_deletes import GATHERED_FOR, MOST_DELETED, InstanceDeleter
from ullage.cloud.api import CloudError, OutcomeUnknown, RequestRejected, Throttled
from ullage.cloud.simulated import CloudBehaviour, SimulatedCloud
from ullage.sim.virtual_time import loop_clock, run_virtual


class Calls(SimulatedCloud):
    """Remembers what it was asked to delete, and when; rejects what is said to be `theirs`."""

    def __init__(self) -> None:
        super().__init__(loop_clock(), CloudBehaviour(latency=1.0))
        self.calls: list[tuple[float, list[str]]] = []
        self.theirs = ""

    async def delete(self, ids: Sequence[str]) -> None:
        self.calls.append((round(asyncio.get_running_loop().time(), 3), list(ids)))
        if self.theirs in ids:
            raise RequestRejected(f"{self.theirs} is not yours")
        await super().delete(ids)


Outcomes = list[BaseException | None]


def played(story: Callable[[Calls, InstanceDeleter], Awaitable[None]]) -> Calls:
    async def live() -> Calls:
        cloud, requests = Calls(), Requests()
        pool = requests.pool("p")
        for name in "abcd":
            cloud.adopt(name, requests.request(pool, 1, name))
        await story(cloud, InstanceDeleter(loop_clock()))
        return cloud

    return run_virtual(live())


async def outcomes(*deletions: Awaitable[None]) -> Outcomes:
    return await asyncio.gather(*deletions, return_exceptions=True)


async def later(seconds: float, deletion: Awaitable[None]) -> None:
    await asyncio.sleep(seconds)
    await deletion


def test_those_asked_for_together_are_one_call() -> None:
    async def story(cloud: Calls, deleter: InstanceDeleter) -> None:
        at_once = [deleter.delete(cloud, name) for name in "ab"]
        late = [later(GATHERED_FOR / 2, deleter.delete(cloud, "c")), later(0.5, deleter.delete(cloud, "d"))]
        assert await outcomes(*at_once, *late) == [None] * 4

    cloud = played(story)
    assert cloud.calls == [(GATHERED_FOR, ["a", "b", "c"]), (0.5 + GATHERED_FOR, ["d"])], "nobody waits for an answer"
    assert cloud.machine_ids() == []


def test_no_call_is_too_large() -> None:
    async def story(cloud: Calls, deleter: InstanceDeleter) -> None:
        await outcomes(*(deleter.delete(cloud, f"i-{number}") for number in range(2 * MOST_DELETED + 1)))

    assert [len(ids) for _, ids in played(story).calls] == [MOST_DELETED, MOST_DELETED, 1]


def test_one_that_is_rejected_does_not_keep_the_others() -> None:
    async def story(cloud: Calls, deleter: InstanceDeleter) -> None:
        cloud.theirs = "b"
        found = await outcomes(*(deleter.delete(cloud, name) for name in "abc"))
        assert [type(one) for one in found] == [type(None), RequestRejected, type(None)]

    assert played(story).machine_ids() == ["b", "d"]


@pytest.mark.parametrize("error", [OutcomeUnknown("no answer"), Throttled("slow down")], ids=["unknown", "throttled"])
def test_a_failed_call_failed_for_all(error: CloudError) -> None:
    async def story(cloud: Calls, deleter: InstanceDeleter) -> None:
        cloud.faults.fail("delete", error)
        assert await outcomes(*(deleter.delete(cloud, name) for name in "abc")) == [error] * 3
        assert await outcomes(*(deleter.delete(cloud, name) for name in "abc")) == [None] * 3

    assert [ids for _, ids in played(story).calls] == [["a", "b", "c"]] * 2


def test_a_cloud_that_asks_to_be_left_alone_is_left_alone_by_all() -> None:
    async def story(cloud: Calls, deleter: InstanceDeleter) -> None:
        cloud.faults.fail("delete", Throttled("slow down", retry_after=40.0))
        (first,) = await outcomes(deleter.delete(cloud, "a"))
        await asyncio.sleep(10.0)
        (second,) = await outcomes(deleter.delete(cloud, "b"))
        assert isinstance(first, Throttled)
        assert isinstance(second, Throttled)
        assert (first.retry_after, round(second.retry_after)) == (40.0, 30)
        await asyncio.sleep(second.retry_after)
        assert await outcomes(*(deleter.delete(cloud, name) for name in "ab")) == [None, None]

    assert [ids for _, ids in played(story).calls] == [["a"], ["a", "b"]]


def test_a_cloud_that_asks_for_peace_for_ever_has_it_for_ten_minutes() -> None:
    async def story(cloud: Calls, deleter: InstanceDeleter) -> None:
        cloud.faults.fail("delete", Throttled("never", retry_after=float("inf")))
        await outcomes(deleter.delete(cloud, "a"))
        await asyncio.sleep(599.0)
        (refused,) = await outcomes(deleter.delete(cloud, "a"))
        assert isinstance(refused, Throttled)
        await asyncio.sleep(2.0)
        assert await outcomes(deleter.delete(cloud, "a")) == [None]

    assert played(story).machine_ids() == ["b", "c", "d"]


@pytest.mark.parametrize("who", [0, 1], ids=["who-makes-the-call", "who-waits-for-it"])
def test_somebody_who_is_cancelled_leaves_nobody_without_an_answer(who: int) -> None:
    async def story(cloud: Calls, deleter: InstanceDeleter) -> None:
        tasks = [asyncio.ensure_future(deleter.delete(cloud, name)) for name in "ab"]
        await asyncio.sleep(0.3)
        await ended(tasks[who])
        (found,) = await outcomes(tasks[1 - who])
        assert isinstance(found, OutcomeUnknown) if who == 0 else found is None
        assert await outcomes(deleter.delete(cloud, "b")) == [None]

    played(story)
