"""Watches over HTTP: lines as they come, bookmarks and the end by the client's clock."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from aiohttp import web

from ullage.kube.client.transport import JSON, Request
from ullage.sim.apiserver.storage.watchers import BOOKMARK_PERIOD, Watcher
from ullage.sim.http.bridge import BridgeClosed

Ask = Callable[[Callable[[], Any]], Awaitable[Any]]

_LEAST_SECONDS = 1800.0
_FOR_EVER = 10**9
"""Seconds of the server's own, possibly much faster, time."""


def endless(request: Request) -> Request:
    """The same watch without an end of its own: the HTTP side ends it."""
    said = request.query.get("timeoutSeconds", "")
    if said and not said.isdigit():
        return request  # to be refused
    return replace(request, query={**request.query, "timeoutSeconds": str(_FOR_EVER)})


class ThreadEvent:
    """Event set on the server's loop and awaited on the sockets' loop; set once until the watch has been read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rang = asyncio.Event()
        self._ringing = False

    def ring(self) -> None:
        if not self._ringing:
            self._ringing = True
            with suppress(RuntimeError):  # the sockets' loop has ended, and with it the stream that would wait
                self._loop.call_soon_threadsafe(self._rang.set)

    def silence(self) -> None:
        """On the server's loop, before looking."""
        self._ringing = False

    async def wait(self, seconds: float) -> bool:
        """True if the event was set within that many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rang.wait()
        rang = self._rang.is_set()
        self._rang.clear()
        return rang


class WatchStreams:
    """All open watches of one HTTP server."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._bells: set[ThreadEvent] = set()
        self._closed = False

    def new_bell(self) -> ThreadEvent:
        return ThreadEvent(asyncio.get_running_loop())

    def close(self) -> None:
        self._closed = True
        for bell in list(self._bells):
            bell.ring()

    async def carry(
        self, asked: web.Request, request: Request, watcher: Watcher, bell: ThreadEvent
    ) -> web.StreamResponse:
        """Send every line of the watcher until its time is over, the watch ends, or the client or the server closes."""
        answer = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
        self._bells.add(bell)
        try:
            await answer.prepare(asked)
            with suppress(BridgeClosed):
                await self._pump(answer, request, watcher, bell)
            await answer.write_eof()
        except ConnectionError:
            pass  # the client is gone
        finally:
            self._bells.discard(bell)
            await self._release(watcher)
        return answer

    async def _pump(self, answer: web.StreamResponse, request: Request, watcher: Watcher, bell: ThreadEvent) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + _seconds(request)
        mark = loop.time() + BOOKMARK_PERIOD if watcher.terms.bookmarks else ends

        def look() -> tuple[list[bytes], bool]:
            bell.silence()
            return watcher.drain(), watcher.closed

        while not self._closed:
            lines, finished = await self._ask(look)
            if lines:
                await answer.write(b"\n".join(lines) + b"\n")
            if finished or loop.time() >= ends:
                return
            if not await bell.wait(max(0.0, min(mark, ends) - loop.time())) and mark <= loop.time() < ends:
                mark += BOOKMARK_PERIOD
                await self._ask(watcher.bookmark)

    async def _release(self, watcher: Watcher) -> None:
        """Runs also when our own task is being cancelled: the work is handed over, not waited for."""

        def closed() -> None:
            watcher.wake = None
            watcher.close()

        with suppress(Exception):
            task = asyncio.ensure_future(self._ask(closed))
            await asyncio.shield(task)


def _seconds(request: Request) -> float:
    """Seconds of the watch: as the client asks, else drawn as the real server draws them."""
    said = request.query.get("timeoutSeconds", "")
    return float(said) if said.isdigit() and int(said) else _LEAST_SECONDS * (1 + random.random())
