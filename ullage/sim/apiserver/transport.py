"""`Transport` to a server in memory, on whatever event loop runs: real, scaled or virtual."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from ullage.errors import Unreachable
from ullage.kube.client.transport import Request, Response, StreamRejected
from ullage.sim.apiserver.network_faults import NetworkConditions, NetworkFault, answer_of
from ullage.sim.apiserver.request.authorization import ADMIN
from ullage.sim.apiserver.server import SimulatedApiServer, is_watch
from ullage.sim.apiserver.storage.watchers import Watcher


class InMemoryTransport:
    """One client's connection. `weather` holds its network conditions; `cut()` disconnects the client for good."""

    def __init__(
        self, server: SimulatedApiServer, *, user: str = ADMIN, network: NetworkConditions | None = None
    ) -> None:
        self._server = server
        self._user = user
        self.network = network or NetworkConditions()
        self._cut = False
        self._open: dict[int, asyncio.Event] = {}
        self._opened = 0

    def cut(self) -> None:
        """From now on nothing gets through, and open streams break. There is no way back."""
        self._cut = True
        for bell in list(self._open.values()):
            bell.set()

    def break_streams(self) -> None:
        """Cut every open watch once, as a restarting proxy would."""
        for number in list(self._open):
            self._open.pop(number).set()

    async def send(self, request: Request) -> Response:
        """One call. Its effect happens halfway: before it the request is on the way, after it the answer is."""
        delay = self.network.delay(request.method)
        turn = self.network.turn(asyncio.get_running_loop().time())
        await self._travel(request, turn + delay / 2)
        fault = self.network.fault(request)
        if fault is NetworkFault.REFUSED:
            raise Unreachable(f"{request.method} {request.path}: connection refused")
        if fault is not None and (answer := answer_of(fault)) is not None:
            return answer
        response = self._server.handle(request, self._user)
        if fault is NetworkFault.LOST:
            raise Unreachable(f"{request.method} {request.path}: connection reset before an answer came")
        await self._travel(request, delay / 2)
        return response

    async def _travel(self, request: Request, seconds: float) -> None:
        self._check_connected(request)
        if request.timeout is not None and seconds > request.timeout:
            await asyncio.sleep(request.timeout)
            raise Unreachable(f"{request.method} {request.path}: no answer in {request.timeout:g} s")
        await asyncio.sleep(seconds)
        self._check_connected(request)

    def _check_connected(self, request: Request) -> None:
        if self._cut:
            raise Unreachable(f"{request.method} {request.path}: this client has been cut off")
        if not self.network.reaches(request):
            raise Unreachable(f"{request.method} {request.path}: network is unreachable")

    async def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        """The lines of a watch as they come."""
        await self._travel(request, self.network.delay("WATCH"))
        fault = self.network.fault(request)
        if fault in (NetworkFault.REFUSED, NetworkFault.LOST):
            raise Unreachable(f"WATCH {request.path}: connection refused")
        if fault is not None and (answer := answer_of(fault)) is not None:
            raise StreamRejected(answer)
        if not is_watch(request):
            response = self._server.handle(request, self._user)
            if response.status >= 400:
                raise StreamRejected(response)
            yield [response.body]
            return
        watcher = self._server.open_watch(request, self._user)
        if isinstance(watcher, Response):
            raise StreamRejected(watcher)
        self._opened += 1
        number = self._opened
        bell = self._open[number] = asyncio.Event()
        watcher.wake = bell.set
        try:
            async for lines in self._lines(request, watcher, bell, number):
                yield lines
        finally:
            watcher.wake = None
            watcher.close()
            self._open.pop(number, None)

    async def _lines(
        self, request: Request, watcher: Watcher, bell: asyncio.Event, number: int
    ) -> AsyncIterator[Sequence[bytes]]:
        while True:
            self._check_stream(request, number)
            bell.clear()
            if lines := watcher.take(self._server.now()):
                if self.network.latency.watch > 0:
                    await asyncio.sleep(self.network.latency.watch)
                    self._check_stream(request, number)
                yield lines
                continue
            if watcher.finished:
                return
            await self._wait(bell, watcher.due() - self._server.now())

    def _check_stream(self, request: Request, number: int) -> None:
        self._check_connected(request)
        if number not in self._open or self.network.cuts_stream():
            raise Unreachable(f"WATCH {request.path}: connection reset")

    async def _wait(self, bell: asyncio.Event, seconds: float) -> None:
        """Until there is something to take, or it is time to look anyway."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(max(seconds, 0.0), bell.set)
        try:
            await bell.wait()
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Let go of open streams. Idempotent."""
        self.break_streams()
