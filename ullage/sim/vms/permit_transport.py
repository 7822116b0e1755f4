"""Transport of permit requests in memory: agents reach the scheduler's own handler without sockets.

Loss and delay are from a seed, as between a client and the simulated API server.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence

from ullage.control.vms.permits import PermitHandler
from ullage.errors import Unreachable
from ullage.kube.client.transport import Request, Response


class InMemoryPermits:
    """Transport of one node's agent. `handler` returns the handler of the scheduler that leads; None: nobody does."""

    def __init__(
        self,
        handler: Callable[[], PermitHandler | None],
        node: str,
        *,
        latency: float = 0.002,
        loss: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._handler = handler
        self._node = node
        self._latency = latency
        self._loss = loss
        self._chance = random.Random(f"{seed} {node}")

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(self._latency)
        fate = self._chance.random() if self._loss else 1.0
        handler = self._handler()
        if handler is None or fate < self._loss / 2:
            raise Unreachable("the scheduler does not answer")
        answering = asyncio.ensure_future(handler.handle(request.method, request.body or b"", node=self._node))
        try:
            # The scheduler works on although the agent does not wait any longer.
            answer = await asyncio.wait_for(asyncio.shield(answering), request.timeout)
        except TimeoutError:
            raise Unreachable("the scheduler did not answer in time") from None
        await asyncio.sleep(self._latency)
        if fate < self._loss or self._handler() is not handler:
            raise Unreachable("the answer was lost")
        return Response(answer.status, answer.body, content_type=answer.content_type)

    def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        raise NotImplementedError("the scheduler streams nothing")

    async def close(self) -> None:
        return None
