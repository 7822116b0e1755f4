"""The cloud in memory: the contract, and time."""

import asyncio

import pytest

from tests.cloud.benches import Requests
from ullage.clock import WallClock
from ullage.cloud.api import CloudProvider, CreateRequest, OutcomeUnknown, Throttled
from ullage.cloud.simulated import CloudBehaviour, SimulatedCloud
from ullage.model.instance import Instance, InstanceState
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.cloud_contract import CloudContract, CloudTrouble, ProviderBench


class SimulatedBench(Requests):
    def __init__(self) -> None:
        super().__init__()
        self.cloud = SimulatedCloud(WallClock())

    @property
    def provider(self) -> CloudProvider:
        return self.cloud

    async def settle(self) -> None:
        return None

    async def trouble(self, trouble: CloudTrouble) -> None:
        match trouble:
            case CloudTrouble.NO_CAPACITY:
                self.cloud.behaviour.capacity["one"] = 0
            case CloudTrouble.ONE_LEFT:
                self.cloud.behaviour.capacity["one"] = 1
            case CloudTrouble.QUOTA:
                self.cloud.behaviour.quota = 0
            case CloudTrouble.THROTTLED:
                self.cloud.faults.fail("create", Throttled("slow down", retry_after=5.0))
            case CloudTrouble.LOST_ANSWER:
                self.cloud.faults.lose_answer("create")
            case CloudTrouble.DELETE_FAILS:
                self.cloud.faults.fail("delete", OutcomeUnknown("no answer"))


class TestSimulated(CloudContract):
    @pytest.fixture
    def bench(self) -> ProviderBench:
        return SimulatedBench()


REQUESTS = Requests()
TWO = REQUESTS.request(REQUESTS.pool("one"), 2, "token")


@pytest.mark.story
def test_machines_boot_in_their_time_and_lists_are_old() -> None:
    async def story() -> None:
        booted: list[tuple[float, str]] = []
        clock = loop_clock()
        start = clock.now()

        async def on_boot(instance: Instance, request: CreateRequest) -> None:
            assert request.token == "token"
            booted.append((clock.now() - start, instance.node))

        cloud = SimulatedCloud(clock, CloudBehaviour(boot=90.0, list_lag=30.0, latency=1.0), on_boot=on_boot)
        running = asyncio.create_task(cloud.run())
        cloud.faults.never_joins = 1
        await cloud.create(TWO)
        assert await cloud.list([]) == [], "they are there, and the list does not know yet"
        await asyncio.sleep(30.0)
        assert [one.state for one in await cloud.list([])] == [InstanceState.PENDING] * 2
        await asyncio.sleep(60.0)
        assert [(one.node, one.state) for one in await cloud.list([])] == [
            ("", InstanceState.RUNNING),
            ("one-0001", InstanceState.RUNNING),
        ]
        assert booted == [(90.5, "one-0001")]
        await cloud.delete(["one-0000", "one-0001"])
        assert len(await cloud.list([])) == 2, "they are gone, and the list does not know yet"
        await asyncio.sleep(30.0)
        assert await cloud.list([]) == []
        running.cancel()

    run_virtual(story())
