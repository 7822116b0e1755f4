"""The thread with the sockets: an HTTP server on an event loop of its own, in real time."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable

from aiohttp import web

from ullage.errors import UserError
from ullage.observe.probes import ListenAddress

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LARGEST_BODY = 3 * 2**20
_BACKLOG = 128
_START_SECONDS = 10.0
_STOP_SECONDS = 5.0
_LAST_WORDS_SECONDS = 0.5
_PARTING_YIELDS = 20


def bound_socket(address: ListenAddress) -> socket.socket:
    """A socket that has the address. Raises UserError where it cannot be had."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((address.host, address.port))
        taken.listen(_BACKLOG)
    except OSError as error:
        taken.close()
        raise UserError(f"cannot listen on {address}: {error.strerror or error}; choose another port") from error
    return taken


class HttpListener:
    """Serves from `start` to `stop`. `closing` is called on the thread's loop when it is about to end."""

    def __init__(self, handler: Handler, closing: Callable[[], None]) -> None:
        self._handler = handler
        self._closing = closing
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self, taken: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Returns when requests are answered."""
        self._thread = threading.Thread(target=self._run, args=(taken, tls), name="HTTP of the simulated API")
        self._thread.daemon = True
        self._thread.start()
        if not self._ready.wait(_START_SECONDS) or self._failure is not None:
            raise RuntimeError("the HTTP server of the simulated API did not start") from self._failure

    def stop(self) -> None:
        """Returns when the thread is gone and its port free."""
        if self._thread is None or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_STOP_SECONDS)

    def _run(self, taken: socket.socket, tls: ssl.SSLContext | None) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve(taken, tls))
        except Exception as error:  # noqa: BLE001 - told to whoever waits for the start
            self._failure = error
        finally:
            taken.close()
            asyncio.set_event_loop(None)
            self._loop.close()
            self._ready.set()

    async def _serve(self, taken: socket.socket, tls: ssl.SSLContext | None) -> None:
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._handler)
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            shutdown_timeout=_LAST_WORDS_SECONDS,
        )
        await runner.setup()
        site = web.SockSite(runner, taken, ssl_context=tls)
        try:
            await site.start()
            self._ready.set()
            await self._stopping.wait()
            self._closing()
            self._loop.remove_reader(taken)
            await _some_yields()  # connections being accepted must be open before they can be closed
        finally:
            await runner.cleanup()
            await _some_yields()  # closed connections are released


async def _some_yields() -> None:
    for _ in range(_PARTING_YIELDS):
        await asyncio.sleep(0)
