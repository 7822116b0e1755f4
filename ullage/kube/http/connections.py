"""Connection pool: the next call takes the connection used last, while it is fresh, else a new one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from ullage.kube.http.answer import HttpResponse
from ullage.kube.http.wire import Connection

KEEP_IDLE_SECONDS = 60.0


class ConnectionPool:
    """Pool of equal connections, one per concurrent call. The caller limits concurrent calls."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._idle: deque[Connection] = deque()
        self._busy: set[Connection] = set()
        self._closed = False

    async def ask(self, request: bytes) -> HttpResponse:
        """Send a request over one of the connections and wait for the response."""
        connection = self._take() or await self._connect()
        self._busy.add(connection)
        try:
            return await connection.ask(request)
        finally:
            self._busy.discard(connection)
            self._take_back(connection)

    def close(self) -> None:
        """Close all connections. Calls under way fail."""
        self._closed = True
        for busy in self._busy:
            busy.abort()
        while self._idle:
            self._idle.pop().close()

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

    def _take_back(self, connection: Connection) -> None:
        if self._closed or not connection.usable:
            connection.close()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)
