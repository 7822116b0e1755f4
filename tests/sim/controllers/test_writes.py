"""How plans are carried out: in order, side by side, in growing batches, and what is said of what was not done."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from ullage.errors import Invalid, NotFound
from ullage.kube.client.api import Deletion
from ullage.kube.client.resource import Resource
from ullage.kube.client.rest import RestApi
from ullage.kube.objects.meta import PartialObject
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import Latency, NetworkConditions
from ullage.sim.controllers.writes import CreateObject, DeleteObject, MergeObject, Write, perform
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_config_map

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, PartialObject)


def with_an_api(story: Callable[[RestApi], Awaitable[None]]) -> None:
    """An API on which every call takes a second."""

    async def told() -> None:
        server = SimulatedApiServer(loop_clock(), seed=1)
        network = NetworkConditions(latency=Latency(default=1.0))
        await story(RestApi(InMemoryTransport(server, network=network), rng=random.Random(1)))

    run_virtual(told())


def creations(*names: str) -> list[Write]:
    return [CreateObject(CONFIG_MAPS, "default", a_config_map(name)) for name in names]


def test_creations_grow_deletions_go_together_and_merges_take_turns() -> None:
    names = [f"map-{number}" for number in range(7)]
    took: list[float] = []

    async def story(api: RestApi) -> None:
        loop = asyncio.get_running_loop()
        merges = [MergeObject(CONFIG_MAPS, "default", name, {"data": {"a": "1"}}) for name in names[:3]]
        deletions = [DeleteObject(CONFIG_MAPS, "default", name, Deletion()) for name in names]
        for writes in (creations(*names), merges, deletions):
            began = loop.time()
            await perform(api, writes)
            took.append(loop.time() - began)

    with_an_api(story)
    assert took == [3, 3, 1]


def test_after_a_refusal_nothing_more_is_tried_and_all_that_is_left_is_named() -> None:
    undone: list[str] = []

    async def story(api: RestApi) -> None:
        writes = creations("good", "BAD", "fine", "late", "later")
        with pytest.raises(Invalid):
            await perform(api, writes, undone=lambda write: undone.append(_name(write)))
        assert [each.metadata.name for each in (await api.list(CONFIG_MAPS, "default")).items] == ["fine", "good"]

    with_an_api(story)
    assert undone == ["BAD", "late", "later"]


def test_what_is_gone_counts_as_deleted_but_cannot_be_merged_into() -> None:
    async def story(api: RestApi) -> None:
        await perform(api, [DeleteObject(CONFIG_MAPS, "default", "ghost", Deletion())])
        with pytest.raises(NotFound):
            await perform(api, [MergeObject(CONFIG_MAPS, "default", "ghost", {"data": {}})])

    with_an_api(story)


def _name(write: Write) -> str:
    return str(write.body["metadata"]["name"]) if isinstance(write, CreateObject) else write.name
