"""From the thread with the sockets to the loop with the server, and back: work is handed over, its result returned.

Everything that touches the server happens on the server's loop, one piece of work at a time. No sockets here.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from ullage.sim.virtual_time import VirtualLoop

T = TypeVar("T")

ATTEND_SECONDS = 1.0
"""Seconds of virtual time between two looks of a loop that cannot be woken at the work that waits."""


class BridgeClosed(Exception):
    """The server's loop no longer answers."""


class LoopBridge:
    """Work waits in line until the loop gets to it. `ask` may be called from any thread, the rest is the loop's own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._can_be_woken = not isinstance(loop, VirtualLoop)
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._closed = False
        self._attending = None if self._can_be_woken else loop.create_task(self._attend(), name="attend to HTTP")

    def ask(self, work: Callable[[], T]) -> Future[T]:
        """The result of the work, later; cancelled if the bridge is closed before."""
        future: Future[T] = Future()
        self._waiting.append((future, work))
        if self._can_be_woken and not self._closed:
            try:
                self._loop.call_soon_threadsafe(self._serve_waiting)
            except RuntimeError:  # the loop is closed and never answers
                self._closed = True
        if self._closed:
            self._cancel_waiting()
        return future

    def close(self) -> None:
        """Nothing is handed over any more. Idempotent."""
        self._closed = True
        if self._attending is not None:
            self._attending.cancel()
        self._cancel_waiting()

    async def _attend(self) -> None:
        while True:  # virtual time passes by its own timers alone
            await asyncio.sleep(ATTEND_SECONDS)
            self._serve_waiting()

    def _serve_waiting(self) -> None:
        while self._waiting and not self._closed:
            future, work = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - it belongs to whoever asked, in the other thread
                future.set_exception(error)
            else:
                future.set_result(result)

    def _cancel_waiting(self) -> None:
        while self._waiting:
            try:
                future, _ = self._waiting.popleft()
            except IndexError:  # another thread was faster
                return
            future.cancel()
