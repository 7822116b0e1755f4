"""Connection pool: a call takes the connection used last; where none is free, the next that is free or new.

New connections are made a few at a time. A server that stalls for a moment would otherwise get one TLS handshake for
each call that waits, and be busy with those long after its stall is over.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from weakref import WeakSet

from ullage.kube.http.answer import HttpResponse
from ullage.kube.http.wire import Connection

KEEP_IDLE_SECONDS = 60.0
CONNECT_SECONDS = 10.0
"""Longest wait of a call for a connection."""
CONNECTS_AT_ONCE = 4


class ConnectionPool:
    """Pool of equal connections, one per concurrent call. The caller limits concurrent calls."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._idle: deque[Connection] = deque()
        self._busy: set[Connection] = set()
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        """Calls without a connection, the oldest first."""
        self._connecting: set[asyncio.Task[None]] = set()
        self._made: WeakSet[Connection] = WeakSet()
        self._closed = False

    async def ask(self, request: bytes) -> HttpResponse:
        """Send a request over one of the connections and wait for the response."""
        connection = self._take() or await self._next()
        self._busy.add(connection)
        try:
            return await connection.ask(request)
        finally:
            self._busy.discard(connection)
            self._hand_on(connection)

    def close(self) -> None:
        """Close all connections. Calls under way fail."""
        self._closed = True
        for task in self._connecting:
            task.cancel()
        for busy in self._busy:
            busy.abort()
        while self._waiting:
            self._fail_oldest(ConnectionError("this client is closed"))
        while self._idle:
            self._idle.pop().close()

    def abort(self) -> None:
        """Close what `close` left open because the server has not yet answered the shutdown of TLS."""
        for connection in list(self._made):
            connection.abort()

    def _take(self) -> Connection | None:
        oldest_kept = asyncio.get_running_loop().time() - KEEP_IDLE_SECONDS
        while self._idle and self._idle[0].idle_since < oldest_kept:
            self._idle.popleft().close()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.abort()
        return None

    async def _next(self) -> Connection:
        """Wait for a connection that another call gives back, or a new one. Raises what keeps it from being made."""
        waiting: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._connect_more()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await waiting
        except BaseException:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self._hand_on(waiting.result())  # it came in the moment in which the call was given up
            raise

    def _connect_more(self) -> None:
        wanted = min(sum(not one.done() for one in self._waiting), CONNECTS_AT_ONCE)
        while len(self._connecting) < wanted and not self._closed:
            task = asyncio.create_task(self._connect_one(), name="connect")
            self._connecting.add(task)
            task.add_done_callback(self._connect_ended)

    def _connect_ended(self, task: asyncio.Task[None]) -> None:
        self._connecting.discard(task)
        self._connect_more()

    async def _connect_one(self) -> None:
        """Make one connection for whoever waits longest; that call also gets the failure."""
        try:
            connection = await self._connect()
        except Exception as error:  # noqa: BLE001 - raised by the call that waits for it
            self._fail_oldest(error)
        else:
            self._made.add(connection)
            self._hand_on(connection)

    def _hand_on(self, connection: Connection) -> None:
        """Give a free connection to the call that waits longest, or keep it."""
        if self._closed or not connection.usable:
            connection.close()
            return
        oldest = self._oldest()
        if oldest is not None:
            oldest.set_result(connection)
            return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def _fail_oldest(self, error: Exception) -> None:
        oldest = self._oldest()
        if oldest is not None:
            oldest.set_exception(error)

    def _oldest(self) -> "asyncio.Future[Connection] | None":
        """The call that waits longest, taken out of the queue. Those that were given up are forgotten."""
        while self._waiting:
            oldest = self._waiting.popleft()
            if not oldest.done():
                return oldest
        return None
