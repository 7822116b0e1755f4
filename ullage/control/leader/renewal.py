"""A candidate in a thread of its own, with its own loop and connection: a long plan must not cost us the lease.

Only whole calls cross the border between the loops. The term they are about is read on one side and extended on the
other; that is one number.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from ullage.control.leader.election import LeaderElector
from ullage.control.leader.leadership import Leadership

T = TypeVar("T")


class RenewalThread:
    """A `Candidate`. Use it as an async context: the thread lives as long as the block."""

    def __init__(self, make: Callable[[], LeaderElector]) -> None:
        """`make` is called in the thread, so that what it opens belongs to the thread's loop."""
        self._make = make
        self._started: Future[None] = Future()
        self._stop: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._elector: LeaderElector
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), name="lease renewal", daemon=True)

    async def __aenter__(self) -> Self:
        self._thread.start()
        await asyncio.wrap_future(self._started)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join)

    async def acquire(self) -> Leadership:
        return await self._there(self._elector.acquire())

    async def keep(self, leadership: Leadership) -> None:
        await self._there(self._elector.keep(leadership))

    async def release(self, leadership: Leadership) -> None:
        # Writes under way are tasks of this loop: they are waited for here, and are over when the thread asks.
        await leadership.settled(within=0.0)
        await self._there(self._elector.release(leadership))

    async def _there(self, call: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))

    async def _live(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            self._elector = self._make()
        except Exception as error:  # noqa: BLE001 - raised again where the thread was started
            self._started.set_exception(error)
            return
        self._started.set_result(None)
        await self._stop.wait()
        await self._elector.close()
