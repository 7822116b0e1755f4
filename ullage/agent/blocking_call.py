"""Blocking calls with a time limit: a thread of its own for calls that may never return.

A thread that hangs in a driver cannot be stopped. A BlockingCallThread whose call hangs therefore rejects new calls at
once until the call has returned, and its thread never keeps the process from ending.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class CallTimedOut(Exception):
    """No answer within the limit, or the previous call has not returned."""


class BlockingCallThread:
    """One call at a time, in one thread, from one event loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[_BlockingCall | None] = queue.SimpleQueue()
        self._under_way: asyncio.Future[Any] | None = None
        self._began = 0.0
        self._thread: threading.Thread | None = None

    async def call(self, work: Callable[[], T], limit: float) -> T:
        """Return what `work` returns, or raise what it raises.

        Raises CallTimedOut after `limit` seconds, and at once while a previous call hangs.
        """
        loop = asyncio.get_running_loop()
        if self._under_way is not None and not self._under_way.done():
            raise CallTimedOut(f"no answer for {loop.time() - self._began:.0f} s")
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        answer: asyncio.Future[T] = loop.create_future()
        answer.add_done_callback(_taken_note_of)
        self._under_way, self._began = answer, loop.time()
        self._work.put(_BlockingCall(work, loop, answer))
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(answer)
        except TimeoutError:
            raise CallTimedOut(f"no answer for {limit:.0f} s") from None

    @property
    def stuck(self) -> bool:
        """True if a call has not returned."""
        return self._under_way is not None and not self._under_way.done()

    def close(self) -> None:
        """Accept no more calls. An idle thread ends; a hanging one is left alone."""
        self._work.put(None)

    def _serve(self) -> None:
        while (call := self._work.get()) is not None:
            call.run()


class _BlockingCall:
    """One call handed to the thread, with the future of its result."""

    def __init__(self, work: Callable[[], Any], loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Any]) -> None:
        self._work = work
        self._loop = loop
        self._answer = answer

    def run(self) -> None:
        try:
            result, error = self._work(), None
        except Exception as raised:  # noqa: BLE001 - it is raised where it was asked for
            result, error = None, raised
        with suppress(RuntimeError):  # the loop is closed: no caller waits any more
            self._loop.call_soon_threadsafe(self._answered, result, error)

    def _answered(self, result: Any, error: Exception | None) -> None:
        if self._answer.done():
            return
        if error is None:
            self._answer.set_result(result)
        else:
            self._answer.set_exception(error)


def _taken_note_of(answer: "asyncio.Future[Any]") -> None:
    """Retrieve the error of an answer that came too late: asyncio would log it as never retrieved."""
    if not answer.cancelled():
        answer.exception()
