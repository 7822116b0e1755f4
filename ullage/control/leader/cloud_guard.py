"""Last check before a call to a cloud: a replica that no longer leads buys nothing and deletes nothing."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from ullage.cloud.api import CloudProvider, CreateRequest, CreateResult, OutcomeUnknown, PoolRef
from ullage.control.leader.leadership import Leadership
from ullage.errors import LeadershipLost
from ullage.model.instance import Instance
from ullage.model.provisioner import NodeTemplate

T = TypeVar("T")


class GuardedProvider:
    """GuardedProvider: a cloud provider for one term. Reads pass; changes are refused once the term is over.

    A call may take longer than a lease lasts, as long as that is renewed meanwhile. If the term ends first, the result
    is unknown: the next leader asks again with the same token, or deletes once more.
    """

    def __init__(self, inner: CloudProvider, leadership: Leadership) -> None:
        self._inner = inner
        self._leadership = leadership

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def staleness(self) -> float:
        return self._inner.staleness

    async def create(self, request: CreateRequest) -> CreateResult:
        return await self._change(f"create {request.count} of {request.pool.name}", self._inner.create(request))

    async def delete(self, ids: Sequence[str]) -> None:
        await self._change(f"delete {', '.join(ids)}", self._inner.delete(ids))

    async def list(self, pools: Sequence[PoolRef]) -> Sequence[Instance]:
        return await self._inner.list(pools)

    async def templates(self, pool: PoolRef) -> Sequence[NodeTemplate]:
        return await self._inner.templates(pool)

    async def run(self) -> None:
        await self._inner.run()

    async def close(self) -> None:
        await self._inner.close()

    async def _change(self, what: str, call: Coroutine[Any, Any, T]) -> T:
        return await self._leadership.write(self._while_leading(what, call))

    async def _while_leading(self, what: str, call: Coroutine[Any, Any, T]) -> T:
        calling = asyncio.ensure_future(self._begun(what, call))
        await asyncio.sleep(0)  # it has begun, or was refused
        while not calling.done() and (left := self._leadership.remaining()) > 0:
            await asyncio.wait((calling,), timeout=left)
        if calling.done():
            return calling.result()
        calling.cancel()
        await asyncio.wait((calling,))
        if not calling.cancelled() and calling.exception() is None:
            return calling.result()
        raise OutcomeUnknown(f"{what}: no answer before {self._leadership.identity} ceased to lead")

    async def _begun(self, what: str, call: Coroutine[Any, Any, T]) -> T:
        # Checked here: between a caller's await and this line the process may have stood still.
        if self._leadership.remaining() <= 0:
            call.close()
            raise LeadershipLost(f"{what}: {self._leadership.identity} no longer leads")
        return await call
