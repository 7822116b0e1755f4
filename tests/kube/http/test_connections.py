"""ConnectionPool without sockets: which connection a call gets, and how many are made at once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from ullage.kube.http import connections
from ullage.kube.http.answer import HttpResponse
from ullage.kube.http.connections import CONNECTS_AT_ONCE, ConnectionPool
from ullage.kube.http.wire import Connection

OK = HttpResponse(200, b"")


class Server:
    """Peer that is connected to when the test says so, and whose calls end when the test says so."""

    def __init__(self) -> None:
        self.connects: list[asyncio.Future[Connection]] = []
        self.calls: list[asyncio.Future[HttpResponse]] = []

    async def connect(self) -> Connection:
        self.connects.append(asyncio.get_running_loop().create_future())
        return await self.connects[-1]

    @property
    def connecting(self) -> int:
        return sum(not one.done() for one in self.connects)

    def accept(self) -> "Link":
        link = Link(self)
        next(one for one in self.connects if not one.done()).set_result(cast(Connection, link))
        return link

    def refuse(self) -> None:
        next(one for one in self.connects if not one.done()).set_exception(ConnectionRefusedError("refused"))

    def answer(self) -> None:
        next(one for one in self.calls if not one.done()).set_result(OK)


class Link:
    """One connection of the pool."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.usable = True
        self.idle_since = 0.0
        self.carried = 0

    async def ask(self, _: bytes) -> HttpResponse:
        self.carried += 1
        self._server.calls.append(asyncio.get_running_loop().create_future())
        return await self._server.calls[-1]

    def abort(self) -> None:
        self.usable = False

    def close(self) -> None:
        self.usable = False


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def asked(pool: ConnectionPool, calls: int) -> "list[asyncio.Task[HttpResponse]]":
    return [asyncio.create_task(pool.ask(b"")) for _ in range(calls)]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def pool(server: Server) -> ConnectionPool:
    return ConnectionPool(cast(Callable[[], Awaitable[Connection]], server.connect))


async def test_a_stalled_server_is_not_met_with_a_connection_for_each_waiting_call(
    server: Server, pool: ConnectionPool
) -> None:
    calls = asked(pool, 50)
    await settle()
    assert server.connecting == CONNECTS_AT_ONCE
    link = server.accept()
    for _ in range(50):
        await settle()
        server.answer()
    await asyncio.gather(*calls)
    assert link.carried == 50, "one connection carries all calls, though others are still being made"


async def test_a_call_takes_a_connection_that_is_given_back_before_its_own_is_made(
    server: Server, pool: ConnectionPool
) -> None:
    (first,) = asked(pool, 1)
    await settle()
    link = server.accept()
    await settle()
    (second,) = asked(pool, 1)
    await settle()
    server.answer()
    await first
    await settle()
    assert (link.carried, server.connecting) == (2, 1)
    server.answer()
    await second
    kept = server.accept()
    await settle()
    third, fourth = asked(pool, 2)
    await settle()
    assert (link.carried + kept.carried, server.connecting) == (4, 0), "the late connection is kept for later calls"
    server.answer()
    server.answer()
    await asyncio.gather(third, fourth)


async def test_a_failed_connection_fails_one_call_and_the_others_get_another(
    server: Server, pool: ConnectionPool
) -> None:
    calls = asked(pool, CONNECTS_AT_ONCE + 1)
    await settle()
    server.refuse()
    await settle()
    assert server.connecting == CONNECTS_AT_ONCE, "one is made for the call that had none"
    with pytest.raises(ConnectionRefusedError):
        await calls[0]
    for _ in calls[1:]:
        server.accept()
        await settle()
        server.answer()
    await asyncio.gather(*calls[1:])


async def test_a_call_that_is_given_up_passes_its_connection_on(server: Server, pool: ConnectionPool) -> None:
    first, second = asked(pool, 2)
    await settle()
    link = server.accept()
    await asyncio.sleep(0)  # the connection is handed over
    first.cancel()
    await settle()
    assert (link.carried, server.connecting) == (1, 1), "the second call goes over it, and waits for no other"
    server.answer()
    await second
    assert first.cancelled()


async def test_a_call_waits_for_a_connection_no_longer_than_one_takes_at_most(
    pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECT_SECONDS", 0.01)
    calls = asked(pool, 20)
    for call in calls:
        with pytest.raises(TimeoutError):
            await call


async def test_closing_ends_calls_that_wait_and_connections_that_are_being_made(
    server: Server, pool: ConnectionPool
) -> None:
    calls = asked(pool, 10)
    await settle()
    pool.close()
    for call in calls:
        with pytest.raises(ConnectionError):
            await call
    await settle()
    assert server.connecting == 0
