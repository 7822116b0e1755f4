"""When lists of machines are had: by the clock from most providers, when told to from those that tell."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.cloud.benches import Requests
from tests.decide.provisioning.pools import a_provisioner
from ullage.cloud.api import PoolRef, Throttled
from ullage.cloud.simulated import CloudBehaviour, SimulatedCloud
from ullage.control.provisioning.instance_lists import InstanceLists
from ullage.model.instance import Instance
from ullage.sim.virtual_time import loop_clock, run_virtual

pytestmark = pytest.mark.story

POOLS = [a_provisioner("one")]
HOUR = 3600.0


class CountingCloud(SimulatedCloud):
    lists = 0

    async def list(self, pools: Sequence[PoolRef]) -> Sequence[Instance]:
        self.lists += 1
        return await super().list(pools)


Story = Callable[[InstanceLists, CountingCloud], Awaitable[None]]


def told(story: Story, behaviour: CloudBehaviour | None = None) -> None:
    async def live() -> None:
        clock = loop_clock()
        cloud = CountingCloud(clock, behaviour)
        clouds = InstanceLists(lambda _: cloud, clock)
        await clouds.refresh(POOLS)
        await story(clouds, cloud)

    run_virtual(live())


async def buy(cloud: CountingCloud) -> None:
    requests = Requests()
    await cloud.create(requests.request(requests.pool("one"), 1, "token"))


def test_a_provider_that_tells_is_not_asked_while_nothing_changes() -> None:
    async def story(clouds: InstanceLists, cloud: CountingCloud) -> None:
        await asyncio.sleep(HOUR)
        await clouds.refresh(POOLS)
        assert (cloud.lists, clouds.next_list()) == (1, None)

    told(story)


def test_it_is_asked_when_it_told() -> None:
    async def story(clouds: InstanceLists, cloud: CountingCloud) -> None:
        clouds.wakeup.clear()
        await buy(cloud)
        assert clouds.wakeup.is_set
        await clouds.refresh(POOLS)
        assert [one.id for one in clouds.instances()] == ["one-0000"]

    told(story)


def test_it_tells_when_its_lists_know() -> None:
    async def story(clouds: InstanceLists, cloud: CountingCloud) -> None:
        await buy(cloud)
        await clouds.refresh(POOLS)
        assert clouds.instances() == []
        assert clouds.next_list() is None
        await asyncio.sleep(31)
        await clouds.refresh(POOLS)
        assert len(clouds.instances()) == 1

    told(story, CloudBehaviour(list_lag=30.0))


def test_a_list_that_failed_is_asked_for_again_without_being_told() -> None:
    async def story(clouds: InstanceLists, cloud: CountingCloud) -> None:
        cloud.faults.fail("list", Throttled("slow down"))
        clouds.look_again()
        assert await clouds.refresh(POOLS) == {POOLS[0].provider: "slow down"}
        again = clouds.next_list()
        assert again is not None
        await asyncio.sleep(61)
        assert await clouds.refresh(POOLS) == {}
        assert (cloud.lists, clouds.next_list()) == (3, None)

    told(story)


def test_lists_of_a_provider_that_tells_are_known_up_to_now_and_those_that_failed_not_at_all() -> None:
    async def story(clouds: InstanceLists, cloud: CountingCloud) -> None:
        name = POOLS[0].provider
        assert clouds.horizon("another") is None
        await asyncio.sleep(100)
        told_now = clouds.horizon(name)
        assert told_now is not None
        assert (told_now.until, told_now.staleness) == (loop_clock().steady(), 30.0)
        began = told_now.until
        clouds.look_again()
        out_of_date = clouds.horizon(name)
        assert out_of_date is not None
        assert out_of_date.until == began - 100, "something changed, and was not listed yet"
        cloud.faults.fail("list", Throttled("slow down"))
        await clouds.refresh(POOLS)
        assert clouds.horizon(name) is None

    told(story, CloudBehaviour(list_lag=30.0))
