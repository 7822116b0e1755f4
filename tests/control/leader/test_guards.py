"""The guard before a cloud: nothing is bought or deleted by whoever no longer leads."""

import asyncio

import pytest

from tests.cloud.benches import Requests
from tests.control.leader.test_guard import a_term, now
from ullage.cloud.api import NoCapacity, OutcomeUnknown
from ullage.cloud.simulated import CloudBehaviour, SimulatedCloud
from ullage.control.leader.cloud_guard import GuardedProvider
from ullage.errors import LeadershipLost
from ullage.sim.virtual_time import loop_clock, run_virtual

pytestmark = pytest.mark.story

REQUESTS = Requests()
TWO = REQUESTS.request(REQUESTS.pool("one"), 2, "token")


def a_cloud(seconds: float = 0.0) -> SimulatedCloud:
    """One that takes so long to answer a call, of which half is over when it has been carried out."""
    return SimulatedCloud(loop_clock(), CloudBehaviour(latency=seconds))


def test_a_leader_buys_lists_and_deletes() -> None:
    async def story() -> None:
        guarded = GuardedProvider(a_cloud(), a_term(15.0))
        made = await guarded.create(TWO)
        assert await guarded.list([]) == list(made.instances)
        await guarded.delete([one.id for one in made.instances])
        assert await guarded.list([]) == []

    run_virtual(story())


@pytest.mark.parametrize("late", ["over", "nearly-over"])
def test_whoever_no_longer_leads_only_looks(late: str) -> None:
    async def story() -> None:
        cloud = a_cloud()
        (kept, _) = (await cloud.create(TWO)).instances
        term = a_term(1.5)
        if late == "over":
            term.extend(now() + 15.0)
            term.end()
        guarded = GuardedProvider(cloud, term)
        with pytest.raises(LeadershipLost, match="delete one-0000: me no longer leads"):
            await guarded.delete([kept.id])
        with pytest.raises(LeadershipLost):
            await guarded.create(REQUESTS.request(REQUESTS.pool("one"), 1, "another"))
        assert len(await guarded.list([])) == 2

    run_virtual(story())


def test_a_slow_call_goes_on_while_the_term_is_extended() -> None:
    async def story() -> None:
        term = a_term(15.0)

        async def renew() -> None:
            for _ in range(20):
                await asyncio.sleep(2.0)
                term.extend(now() + 15.0)

        renewing = asyncio.ensure_future(renew())
        made = await GuardedProvider(a_cloud(30.0), term).create(TWO)
        assert len(made.instances) == 2
        assert now() == 30.0
        renewing.cancel()

    run_virtual(story())


def test_nobody_knows_what_came_of_a_call_that_outlasts_the_term() -> None:
    async def story() -> None:
        term = a_term(15.0)
        with pytest.raises(OutcomeUnknown, match="ceased to lead"):
            await GuardedProvider(a_cloud(40.0), term).create(TWO)
        assert now() == 13.0
        assert not await term.settled(within=15.0), "it may still take effect"

    run_virtual(story())


def test_what_a_cloud_refuses_is_said_as_it_is() -> None:
    async def story() -> None:
        cloud = a_cloud()
        cloud.behaviour.capacity["one"] = 0
        with pytest.raises(NoCapacity):
            await GuardedProvider(cloud, a_term(15.0)).create(TWO)

    run_virtual(story())
