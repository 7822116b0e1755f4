"""HTTP server in a thread with a loop of real time, independent of the time of the view's loop.

Two loops meet here and only here: patches and questions are requested from the view's loop by
`call_soon_threadsafe`, at the pace of real time, and return as frozen rows, or as copies that are asked elsewhere.
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

from ullage.model.fact_event import ObjectKey
from ullage.observe.probes import ListenAddress
from ullage.web.history.answers import HistoryAnswers
from ullage.web.serve.access import TokenGate
from ullage.web.serve.background import Background
from ullage.web.serve.controls import ControlPages, Controls
from ullage.web.serve.hub import PatchHub
from ullage.web.serve.pages import DashboardPages, application, read_assets, with_types
from ullage.web.serve.questions import PageQuestions
from ullage.web.view.patch import ViewPatch

T = TypeVar("T")

PACE = 0.25
"""Real seconds between two patches, at least."""
AT_REST = 2.0
"""Real seconds between two patches, at most: times and costs change even if nothing happens."""

Question = Callable[[], bytes | None]
"""Question on a copy of the cluster: made in the view's loop in milliseconds, answered in any thread, in seconds."""

_log = structlog.get_logger("dashboard")


class DashboardSource(Protocol):
    """Interface of the view that the thread serves. Called in the view's loop, except `stirred`."""

    def patch(self) -> ViewPatch: ...

    def explain(self, key: ObjectKey) -> Question: ...

    def answer(self, kind: str, key: ObjectKey) -> Question: ...

    @property
    def stirred(self) -> bool:
        """True if anything changed since the last patch. May be read from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class DashboardListen:
    """Listen address, token and id of the run."""

    address: ListenAddress
    token: str = ""
    life: str = "0"
    """Different for each run, so that a browser that reconnects does not mix up two runs."""
    controls: Controls | None = None
    """Buttons that act; only a demo has them."""


class ServerThread:
    """Serves one view. Make it in the view's loop; `start` returns when pages are served."""

    def __init__(
        self, shown: DashboardSource, listen: DashboardListen, background: Background, past: HistoryAnswers | None
    ) -> None:
        self._shown = shown
        self._background = background
        self._past = past
        self._listen = listen
        self._home = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="dashboard", daemon=True)
        self._started: concurrent.futures.Future[ListenAddress] = concurrent.futures.Future()
        self.failures = 0
        """Patches that failed. Each is a bug of ours and is in the log."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    async def start(self) -> ListenAddress:
        """Start the thread and return the address it listens on. Raises OSError if the address cannot be bound."""
        self._thread.start()
        # Waits in real time and without a timeout: this loop's seconds may pass faster.
        return await asyncio.shield(asyncio.wrap_future(self._started))

    async def stop(self) -> None:
        """Close every connection and end the thread."""
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None and not loop.is_closed():
            with suppress(RuntimeError):  # it has just ended by itself
                loop.call_soon_threadsafe(stop.set)
        while self._thread.is_alive():
            await asyncio.sleep(0)
            self._thread.join(0.02)

    def _run(self) -> None:
        """Body of the thread."""
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
        hub = PatchHub(self._listen.life)
        runner = web.AppRunner(
            application(self._site(hub)), access_log=None, handle_signals=False, shutdown_timeout=0.2
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self._listen.address.host, self._listen.address.port).start()
            host, port, *_ = runner.addresses[0]
            hub.publish(await self._ask(self._shown.patch))
            self._started.set_result(ListenAddress(host, port))
            await self._until_stopped(self._keep_up(hub), stop)
        finally:
            await runner.cleanup()
            if self._past is not None:
                await self._past.close()

    def _site(self, hub: PatchHub) -> DashboardPages:
        gate, host = TokenGate(self._listen.token), self._listen.address.host
        questions = PageQuestions(self._explain, self._answer, self._past)
        if self._listen.controls is None:
            return DashboardPages(hub, questions, gate, host)
        assets, controls = read_assets(), ControlPages(self._listen.controls, self._ask)
        page, kind = assets["index.html"]
        assets["index.html"] = page.replace(b"</head>", controls.head() + b"</head>"), kind
        return DashboardPages(hub, questions, gate, host, assets | with_types(self._listen.controls.assets), controls)

    async def _until_stopped(self, work: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
        """Run until the work ends or `stop` is set. Errors of the work are raised."""
        task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        stopped.cancel()
        await asyncio.gather(stopped, return_exceptions=True)
        with suppress(asyncio.CancelledError):
            await task

    async def _keep_up(self, hub: PatchHub) -> None:
        """Publish patches at the pace of real time, as long as the view's loop runs."""
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
        return await self._answered(lambda: self._shown.explain(key))

    async def _answer(self, kind: str, key: ObjectKey) -> bytes | None:
        return await self._answered(lambda: self._shown.answer(kind, key))

    async def _answered(self, question: Callable[[], Question]) -> bytes | None:
        """Answer to a question that takes long. Cancelled before its turn, it is never computed."""
        return await asyncio.wrap_future(self._background.submit(await self._ask(question)))

    async def _ask(self, question: Callable[[], T]) -> T:
        """Call a function in the view's loop and return its result."""
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
