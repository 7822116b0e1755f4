"""What lies between a client and the server: delays, losses, cuts. On virtual time."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import pytest

from tests.sim.apiserver.asking import MAPS
from ullage.errors import Unreachable
from ullage.kube.client.transport import Request, StreamRejected
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import FaultRates, Latency, NetworkConditions, NetworkFault
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_config_map

pytestmark = pytest.mark.story

WATCH = Request("GET", MAPS, {"watch": "1", "allowWatchBookmarks": "true"}, timeout=None)


def creation(name: str) -> Request:
    return Request("POST", MAPS, {}, json.dumps(a_config_map(name)).encode())


async def names(transport: InMemoryTransport) -> list[str]:
    response = await transport.send(Request("GET", MAPS))
    return [item["metadata"]["name"] for item in json.loads(response.body)["items"]]


async def one_batch(stream: AsyncIterator[Sequence[bytes]]) -> Sequence[bytes]:
    return await anext(stream)


def on_virtual_time(
    story: Callable[[SimulatedApiServer], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    """Run the story with a server of its own."""

    def run() -> None:
        async def main() -> None:
            await story(SimulatedApiServer(loop_clock(), seed=1))

        run_virtual(main())

    run.__name__ = story.__name__
    return run


@on_virtual_time
async def test_a_call_takes_as_long_as_it_is_told(server: SimulatedApiServer) -> None:
    network = NetworkConditions(latency=Latency({"POST": 0.2}, default=0.1))
    transport = InMemoryTransport(server, network=network)
    start = asyncio.get_running_loop().time()
    await transport.send(creation("a"))
    await transport.send(Request("GET", MAPS))
    assert asyncio.get_running_loop().time() - start == pytest.approx(0.3)


@on_virtual_time
async def test_calls_of_one_client_at_once_take_turns(server: SimulatedApiServer) -> None:
    loop, latency = asyncio.get_running_loop(), Latency(default=0.1, each=0.02)
    busy, other = (InMemoryTransport(server, network=NetworkConditions(latency=latency)) for _ in range(2))
    ended: dict[str, float] = {}

    async def call(client: InMemoryTransport, name: str) -> None:
        await client.send(creation(name))
        ended[name] = round(loop.time() - start, 6)

    start = loop.time()
    await asyncio.gather(*(call(busy, name) for name in "abc"), call(other, "d"))
    assert ended == {"a": 0.1, "b": 0.12, "c": 0.14, "d": 0.1}
    start = loop.time()
    await call(busy, "e")
    assert ended["e"] == 0.1, "nobody else calls"


@on_virtual_time
async def test_the_effect_lies_in_the_middle_of_the_call(server: SimulatedApiServer) -> None:
    slow = InMemoryTransport(server, network=NetworkConditions(latency=Latency(default=1.0)))
    task = asyncio.create_task(slow.send(creation("a")))
    watching = InMemoryTransport(server)
    await asyncio.sleep(0.4)
    assert await names(watching) == []
    await asyncio.sleep(0.2)
    assert await names(watching) == ["a"]
    assert not task.done()
    assert (await task).status == 201


@pytest.mark.parametrize(
    ("fault", "happened"),
    [(NetworkFault.REFUSED, False), (NetworkFault.LOST, True)],
    ids=["refused-before-it-happened", "lost-after-it-happened"],
)
def test_a_lost_call_may_have_happened(fault: NetworkFault, happened: bool) -> None:
    async def main() -> None:
        transport = InMemoryTransport(SimulatedApiServer(loop_clock()))
        transport.network.next_calls(fault)
        with pytest.raises(Unreachable):
            await transport.send(creation("a"))
        assert await names(transport) == (["a"] if happened else [])

    run_virtual(main())


@pytest.mark.parametrize(
    ("fault", "status"),
    [(NetworkFault.THROTTLED, 429), (NetworkFault.BROKEN, 500), (NetworkFault.UNAVAILABLE, 503)],
    ids=str,
)
def test_a_server_in_trouble_says_so_and_does_nothing(fault: NetworkFault, status: int) -> None:
    async def main() -> None:
        transport = InMemoryTransport(SimulatedApiServer(loop_clock()))
        transport.network.next_calls(fault, fault, where=lambda request: "watch" not in request.query)
        assert (await transport.send(creation("a"))).status == status
        transport.network.next_calls(None, fault)
        answer = await transport.send(Request("GET", MAPS))
        assert json.loads(answer.body)["code"] == status
        assert await names(transport) == []
        with pytest.raises(StreamRejected):
            await anext(transport.stream(WATCH))

    run_virtual(main())


def test_dice_fall_the_same_way_for_the_same_seed() -> None:
    async def fates(seed: int) -> list[int]:
        transport = InMemoryTransport(SimulatedApiServer(loop_clock()))
        transport.network = NetworkConditions(
            seed=seed, odds=FaultRates({NetworkFault.LOST: 0.3, NetworkFault.THROTTLED: 0.3})
        )
        found: list[int] = []
        for number in range(40):
            try:
                found.append((await transport.send(creation(f"m{number}"))).status)
            except Unreachable:
                found.append(0)
        return found

    one, same, other = (run_virtual(fates(seed)) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert {0, 201, 429} == set(one)


@on_virtual_time
async def test_cut_ends_everything_for_this_client_only(server: SimulatedApiServer) -> None:
    marked_for_deletion, other = InMemoryTransport(server), InMemoryTransport(server)
    stream = marked_for_deletion.stream(WATCH)
    await other.send(creation("a"))
    assert len(await anext(stream)) == 1
    waiting = asyncio.create_task(one_batch(stream))
    await asyncio.sleep(1)
    marked_for_deletion.cut()
    with pytest.raises(Unreachable):
        await waiting
    with pytest.raises(Unreachable):
        await marked_for_deletion.send(creation("b"))
    assert await names(other) == ["a"]


@on_virtual_time
async def test_a_partition_passes(server: SimulatedApiServer) -> None:
    transport = InMemoryTransport(server)
    transport.network.partitioned = True
    with pytest.raises(Unreachable):
        await transport.send(creation("a"))
    transport.network.partitioned = False
    assert (await transport.send(creation("a"))).status == 201


@on_virtual_time
async def test_streams_deliver_in_batches_and_can_be_broken(server: SimulatedApiServer) -> None:
    transport = InMemoryTransport(server)
    stream = transport.stream(WATCH)
    for name in "abc":
        await transport.send(creation(name))
    assert len(await anext(stream)) == 3
    transport.break_streams()
    with pytest.raises(Unreachable):
        await anext(stream)
    again = transport.stream(WATCH)
    assert len(await anext(again)) == 3
    await transport.close()


@on_virtual_time
async def test_watches_can_lag(server: SimulatedApiServer) -> None:
    transport = InMemoryTransport(server, network=NetworkConditions(latency=Latency(watch=5.0)))
    stream = transport.stream(WATCH)
    await transport.send(creation("a"))
    start = asyncio.get_running_loop().time()
    await anext(stream)
    assert asyncio.get_running_loop().time() - start == pytest.approx(5.0)


@on_virtual_time
async def test_a_watch_ends_when_its_time_is_over(server: SimulatedApiServer) -> None:
    transport = InMemoryTransport(server)
    start = asyncio.get_running_loop().time()
    query = {"watch": "1", "timeoutSeconds": "90", "allowWatchBookmarks": "true"}
    batches = [lines async for lines in transport.stream(Request("GET", MAPS, query, timeout=None))]
    assert [json.loads(line)["type"] for lines in batches for line in lines] == ["BOOKMARK", "BOOKMARK"]
    assert asyncio.get_running_loop().time() - start == pytest.approx(90)


@on_virtual_time
async def test_a_consumer_that_sleeps_is_cut_off_and_finds_what_was_kept(server: SimulatedApiServer) -> None:
    transport = InMemoryTransport(server)
    stream = transport.stream(WATCH)
    await transport.send(creation("first"))
    await anext(stream)
    for number in range(1_200):
        await transport.send(creation(f"m{number}"))
    rest = [line async for lines in stream for line in lines]
    assert len(rest) == 1_000


@on_virtual_time
async def test_a_call_slower_than_its_timeout_is_unanswered(server: SimulatedApiServer) -> None:
    transport = InMemoryTransport(server, network=NetworkConditions(latency=Latency(default=100.0)))
    start = asyncio.get_running_loop().time()
    with pytest.raises(Unreachable, match="no answer in 30 s"):
        await transport.send(creation("a"))
    assert asyncio.get_running_loop().time() - start == pytest.approx(30)
