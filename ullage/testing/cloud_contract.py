"""Contract of CloudProvider, as tests that any provider can run.

A provider's own tests subclass `CloudContract` and give it a `bench`: the provider, requests that make sense to it, a
way to wait until what was asked for can be seen, and a way to make its cloud misbehave. A trouble the cloud cannot
have raises `CannotHappen`, and the case is skipped with that reason.

    class TestMyCloud(CloudContract):
        @pytest.fixture
        async def bench(self) -> AsyncIterator[Bench]:
            ...
"""

# ruff: noqa: S101 - these are tests, for others to run

import asyncio
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import pytest

from ullage.cloud.api import (
    CloudProvider,
    CreateRequest,
    NoCapacity,
    OutcomeUnknown,
    PoolRef,
    QuotaReached,
    RequestRejected,
    Throttled,
)
from ullage.model.instance import Instance, InstanceState


class CloudTrouble(StrEnum):
    """Faults a cloud can have."""

    NO_CAPACITY = "there is none left"
    ONE_LEFT = "there is one left"
    QUOTA = "the account may not have more"
    THROTTLED = "too many calls"
    LOST_ANSWER = "the next create is carried out, and its answer is lost"
    DELETE_FAILS = "the next delete fails, and may have happened"


class CannotHappen(Exception):
    """Raised by a bench whose cloud cannot have that fault, or does not report it."""


class ProviderBench(Protocol):
    """A provider with a cloud of its own, in which no other client makes anything."""

    @property
    def provider(self) -> CloudProvider: ...

    def pool(self, name: str) -> PoolRef:
        """Two pools are asked for: `one` and `two`."""
        ...

    def request(self, pool: PoolRef, count: int, token: str, *, least: int = 1) -> CreateRequest: ...

    async def settle(self) -> None:
        """Wait until all that was requested is visible in lists."""
        ...

    async def trouble(self, trouble: CloudTrouble) -> None:
        """Cause the trouble from now on; LOST_ANSWER and DELETE_FAILS once. Raises CannotHappen."""
        ...


class CloudContract:
    """Subclass it as a test class and define the fixture `bench`."""

    async def test_what_is_asked_for_is_made_and_listed(self, bench: ProviderBench) -> None:
        created = await bench.provider.create(bench.request(bench.pool("one"), 3, "token-a"))
        assert (len(created.instances), created.shortfall) == (3, None)
        instances = await alive(bench)
        assert Counter(one.pool for one in instances) == {"one": 3}
        assert len({one.id for one in instances}) == 3
        assert all(one.since > 0 for one in instances)

    async def test_the_same_token_makes_no_more(self, bench: ProviderBench) -> None:
        request = bench.request(bench.pool("one"), 2, "token-a")
        first = await bench.provider.create(request)
        again = await bench.provider.create(request)
        assert distinct_instances(again.instances) <= distinct_instances(first.instances) | distinct_instances(
            await alive(bench)
        )
        assert len(await alive(bench)) == 2
        assert len((await bench.provider.create(request)).instances) <= 2
        assert len(await alive(bench)) == 2

    async def test_the_same_token_at_once_makes_no_more(self, bench: ProviderBench) -> None:
        request = bench.request(bench.pool("one"), 2, "token-a")
        answers = await asyncio.gather(*(bench.provider.create(request) for _ in range(3)), return_exceptions=True)
        assert all(not isinstance(one, BaseException) or isinstance(one, OutcomeUnknown) for one in answers)
        assert len(await alive(bench)) == 2

    async def test_the_same_token_makes_no_more_when_the_first_are_gone(self, bench: ProviderBench) -> None:
        request = bench.request(bench.pool("one"), 2, "token-a")
        await bench.provider.create(request)
        gone, kept = await alive(bench)
        await bench.provider.delete([gone.id])
        await bench.provider.create(request)
        assert [one.id for one in await alive(bench)] == [kept.id]

    async def test_a_token_is_for_one_purchase(self, bench: ProviderBench) -> None:
        await bench.provider.create(bench.request(bench.pool("one"), 1, "token-a"))
        with pytest.raises(RequestRejected):
            await bench.provider.create(bench.request(bench.pool("one"), 2, "token-a"))
        assert len(await alive(bench)) == 1

    async def test_another_token_makes_others(self, bench: ProviderBench) -> None:
        await bench.provider.create(bench.request(bench.pool("one"), 1, "token-a"))
        await bench.provider.create(bench.request(bench.pool("one"), 2, "token-b"))
        assert len({one.id for one in await alive(bench)}) == 3

    async def test_pools_are_told_apart(self, bench: ProviderBench) -> None:
        await bench.provider.create(bench.request(bench.pool("one"), 1, "token-a"))
        await bench.provider.create(bench.request(bench.pool("two"), 2, "token-b"))
        assert Counter(one.pool for one in await alive(bench)) == {"one": 1, "two": 2}

    async def test_what_is_deleted_goes_and_the_others_stay(self, bench: ProviderBench) -> None:
        await bench.provider.create(bench.request(bench.pool("one"), 3, "token-a"))
        first, second, third = sorted(one.id for one in await alive(bench))
        await bench.provider.delete([second])
        assert sorted(one.id for one in await alive(bench)) == [first, third]
        await bench.provider.delete([first, third])
        assert await alive(bench) == []

    async def test_deleting_again_harms_nobody(self, bench: ProviderBench) -> None:
        await bench.provider.create(bench.request(bench.pool("one"), 2, "token-a"))
        gone, kept = await alive(bench)
        for _ in range(3):
            await bench.provider.delete([gone.id])
        assert [one.id for one in await alive(bench)] == [kept.id]
        await bench.provider.delete([gone.id, kept.id])
        assert await alive(bench) == []

    async def test_deleting_nothing_is_nothing(self, bench: ProviderBench) -> None:
        await bench.provider.delete([])
        assert await alive(bench) == []

    async def test_where_there_is_none_left_nothing_is_made(self, bench: ProviderBench) -> None:
        await having(bench, CloudTrouble.NO_CAPACITY)
        with pytest.raises(NoCapacity):
            await bench.provider.create(bench.request(bench.pool("one"), 2, "token-a"))
        assert await alive(bench) == []

    async def test_fewer_than_asked_for_are_made_if_they_are_of_use(self, bench: ProviderBench) -> None:
        await having(bench, CloudTrouble.ONE_LEFT)
        created = await bench.provider.create(bench.request(bench.pool("one"), 3, "token-a"))
        assert len(created.instances) == 1
        assert isinstance(created.shortfall, NoCapacity)
        assert len(await alive(bench)) == 1

    async def test_fewer_than_are_of_use_are_not_made(self, bench: ProviderBench) -> None:
        await having(bench, CloudTrouble.ONE_LEFT)
        with pytest.raises(NoCapacity):
            await bench.provider.create(bench.request(bench.pool("one"), 3, "token-a", least=2))
        assert await alive(bench) == []

    async def test_a_quota_is_told_from_a_lack_of_machines(self, bench: ProviderBench) -> None:
        await having(bench, CloudTrouble.QUOTA)
        with pytest.raises(QuotaReached):
            await bench.provider.create(bench.request(bench.pool("one"), 1, "token-a"))
        assert await alive(bench) == []

    async def test_too_many_calls_are_told(self, bench: ProviderBench) -> None:
        await having(bench, CloudTrouble.THROTTLED)
        with pytest.raises(Throttled):
            await bench.provider.create(bench.request(bench.pool("one"), 1, "token-a"))

    async def test_a_lost_answer_is_found_again_by_its_token(self, bench: ProviderBench) -> None:
        await having(bench, CloudTrouble.LOST_ANSWER)
        request = bench.request(bench.pool("one"), 2, "token-a")
        with pytest.raises(OutcomeUnknown):
            await bench.provider.create(request)
        created = await bench.provider.create(request)
        assert len(created.instances) == 2
        assert len(await alive(bench)) == 2

    async def test_a_delete_that_failed_can_be_repeated(self, bench: ProviderBench) -> None:
        await bench.provider.create(bench.request(bench.pool("one"), 2, "token-a"))
        gone, kept = await alive(bench)
        await having(bench, CloudTrouble.DELETE_FAILS)
        with pytest.raises(OutcomeUnknown):
            await bench.provider.delete([gone.id])
        await bench.provider.delete([gone.id])
        assert [one.id for one in await alive(bench)] == [kept.id]

    async def test_templates_have_gpus(self, bench: ProviderBench) -> None:
        for template in await bench.provider.templates(bench.pool("one")):
            assert template.gpus.count > 0
            assert template.gpus.model

    async def test_closing_twice_is_closing(self, bench: ProviderBench) -> None:
        await bench.provider.close()
        await bench.provider.close()

    def test_it_says_who_it_is_and_how_old_its_lists_are(self, bench: ProviderBench) -> None:
        assert bench.provider.name
        assert bench.provider.staleness >= 0


async def alive(bench: ProviderBench) -> Sequence[Instance]:
    """Instances that are visible in lists and are not stopping."""
    await bench.settle()
    listed = await bench.provider.list([bench.pool("one"), bench.pool("two")])
    return [one for one in listed if one.state is not InstanceState.STOPPING]


def distinct_instances(instances: Sequence[Instance]) -> set[str]:
    """Ids of machines that have one already."""
    return {one.id for one in instances if one.state is not InstanceState.REQUESTED}


async def having(bench: ProviderBench, trouble: CloudTrouble) -> None:
    """The cloud misbehaves from now on, or the case cannot be."""
    try:
        await bench.trouble(trouble)
    except CannotHappen as reason:
        pytest.skip(f"cannot happen here: {reason}")
