"""The HTTP side in a thread with a loop of real time, whatever time it is where the picture is kept.

Two loops meet here and only here: patches and explanations are asked of the picture's loop by `call_soon_threadsafe`,
at the world's pace, and come back as bytes or frozen rows.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import structlog
from aiohttp import web

from ullage.model.event import ObjectKey
from ullage.observe.serve import Address
from ullage.web.serve.access import Gate
from ullage.web.serve.app import Site, application
from ullage.web.serve.hub import Hub
from ullage.web.view.patch import Patch

T = TypeVar("T")

PACE = 0.25
"""Seconds of the world between two patches at least."""
AT_REST = 2.0
"""And at most: time passes, and money with it, also where nothing happens."""

_log = structlog.get_logger("dashboard")


class Shown(Protocol):
    """What the thread asks of the picture. Called in the picture's loop, except `stirred`."""

    def patch(self) -> Patch: ...

    def explain(self, key: ObjectKey) -> bytes | None: ...

    @property
    def stirred(self) -> bool:
        """Whether anything was heard since the last patch. May be asked from anywhere."""
        ...


@dataclass(frozen=True, slots=True)
class Door:
    """Where to listen, and who may come in."""

    address: Address
    token: str = ""
    life: str = "0"
    """Another one for each run: browsers that come back must not take one for another."""


class ServerThread:
    """Serves one picture. Make it in the picture's loop; `start` returns when pages can be had."""

    def __init__(self, shown: Shown, door: Door) -> None:
        self._shown = shown
        self._door = door
        self._home = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="dashboard", daemon=True)
        self._started: concurrent.futures.Future[Address] = concurrent.futures.Future()
        self.failures = 0
        """Patches that could not be made: bugs of ours, in the log."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    async def start(self) -> Address:
        """The address taken. Raises OSError if it cannot be."""
        self._thread.start()
        # The thread is waited for in the world's seconds: this loop's may pass faster.
        return await asyncio.shield(asyncio.wrap_future(self._started))

    async def stop(self) -> None:
        """Closes every connection. Nothing is left of the thread."""
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None and not loop.is_closed():
            with suppress(RuntimeError):  # it has just ended by itself
                loop.call_soon_threadsafe(stop.set)
        while self._thread.is_alive():
            await asyncio.sleep(0)
            self._thread.join(0.02)

    def _run(self) -> None:
        """The thread."""
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
                return
            raise

    async def _serve(self) -> None:
        stop = asyncio.Event()
        self._loop, self._stop = asyncio.get_running_loop(), stop
        hub = Hub(self._door.life)
        site = Site(hub, self._explain, Gate(self._door.token), self._door.address.host)
        runner = web.AppRunner(application(site), access_log=None, handle_signals=False, shutdown_timeout=0.2)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._door.address.host, self._door.address.port).start()
            host, port, *_ = runner.addresses[0]
            hub.publish(await self._ask(self._shown.patch))
            self._started.set_result(Address(host, port))
            await self._until_stopped(self._keep_up(hub), stop)
        finally:
            await runner.cleanup()

    async def _until_stopped(self, work: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
        """Either ends the other. What the work raises is raised."""
        task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        stopped.cancel()
        await asyncio.gather(stopped, return_exceptions=True)
        with suppress(asyncio.CancelledError):
            await task

    async def _keep_up(self, hub: Hub) -> None:
        """Patches at the world's pace, for as long as the picture's loop runs."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        while not self._home.is_closed():
            await asyncio.sleep(PACE)
            if not self._shown.stirred and loop.time() < last + AT_REST:
                continue
            last = loop.time()
            try:
                patch = await self._ask(self._shown.patch)
            except Exception as error:  # noqa: BLE001 - the control plane in this process must not suffer from it
                self.failures += 1
                _log.exception("the picture could not be brought up to date", error=str(error))
            else:
                if not patch.empty:
                    hub.publish(patch)

    async def _explain(self, key: ObjectKey) -> bytes | None:
        return await self._ask(lambda: self._shown.explain(key))

    async def _ask(self, question: Callable[[], T]) -> T:
        """Have it answered in the picture's loop."""
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()

        def settle() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(question())
            except Exception as error:  # noqa: BLE001 - it is raised where it was asked
                answer.set_exception(error)

        self._home.call_soon_threadsafe(settle)
        return await asyncio.wrap_future(answer)
