"""Bounds around a cloud provider: every call ends in time, with an answer or with a declared error.

A provider is third-party code on a third-party network. One that hangs, or raises what it must not, fails the pool it
was called for and no other.
"""

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from ullage.cloud.api import (
    CloudError,
    CloudProvider,
    CreateRequest,
    CreateResult,
    ListChangeNotifier,
    OutcomeUnknown,
    PoolRef,
)
from ullage.errors import LeadershipLost, UserError
from ullage.model.instance import Instance
from ullage.model.provisioner import NodeTemplate

_log = structlog.get_logger("provisioning")

T = TypeVar("T")

_DECLARED = (CloudError, UserError, LeadershipLost)


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Seconds a call may take."""

    create: float = 120.0
    delete: float = 60.0
    list: float = 60.0


@dataclass(frozen=True, slots=True)
class RestartPace:
    """Seconds until a provider's background work that failed is started again: the first time, and at most."""

    first: float = 5.0
    longest: float = 120.0


class BoundedProvider:
    """A provider whose calls end. What is unknown when time is up is reported as such, and asked for again."""

    def __init__(self, inner: CloudProvider, limits: CallLimits, pace: RestartPace) -> None:
        self._inner = inner
        self._limits = limits
        self._pace = pace

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def staleness(self) -> float:
        return self._inner.staleness

    async def create(self, request: CreateRequest) -> CreateResult:
        what = f"create {request.count} of {request.pool.name}"
        return await self._bounded(what, self._inner.create(request), self._limits.create)

    async def delete(self, ids: Sequence[str]) -> None:
        await self._bounded(f"delete {len(ids)} instances", self._inner.delete(ids), self._limits.delete)

    async def list(self, pools: Sequence[PoolRef]) -> Sequence[Instance]:
        return await self._bounded("list", self._inner.list(pools), self._limits.list)

    async def templates(self, pool: PoolRef) -> Sequence[NodeTemplate]:
        return await self._bounded("templates", self._inner.templates(pool), self._limits.list)

    async def run(self) -> None:
        """Background work, begun again where it fails: calls may go on without it."""
        wait = self._pace.first
        while True:
            try:
                return await self._inner.run()
            except LeadershipLost:
                raise
            except Exception as error:  # noqa: BLE001 - other people's code: whatever it is, it is theirs
                _log.error(
                    "background work of a provider failed", provider=self.name, error=_said(error), again_in=wait
                )
            await asyncio.sleep(wait)
            wait = min(wait * 2, self._pace.longest)

    async def close(self) -> None:
        await self._inner.close()

    async def _bounded(self, what: str, call: Coroutine[Any, Any, T], limit: float) -> T:
        calling = asyncio.ensure_future(call)
        try:
            await asyncio.wait((calling,), timeout=limit)
            if calling.done():
                return calling.result()
        except _DECLARED:
            raise
        except Exception as error:
            told = {"provider": self.name, "call": what, "error": _said(error), "at": _where(error)}
            _log.error("a provider raised an undeclared error", **told)
            raise OutcomeUnknown(f"{what}: {_said(error)}") from error
        finally:
            calling.cancel()  # not waited for: whoever hangs may not hear of it either
        calling.add_done_callback(_consume)
        raise OutcomeUnknown(f"{what}: no answer within {limit:g} s")


class BoundedAnnouncingProvider(BoundedProvider):
    """BoundedProvider for a provider that announces changes of its lists."""

    def __init__(
        self, inner: CloudProvider, announcing: ListChangeNotifier, limits: CallLimits, pace: RestartPace
    ) -> None:
        super().__init__(inner, limits, pace)
        self._announcing = announcing

    def listen(self, on_change: Callable[[], None]) -> None:
        self._announcing.listen(on_change)


def bounded(
    provider: CloudProvider,
    limits: CallLimits = CallLimits(),  # noqa: B008 - frozen
    pace: RestartPace = RestartPace(),  # noqa: B008 - frozen
) -> CloudProvider:
    """The provider with bounds around it."""
    if isinstance(provider, ListChangeNotifier):
        return BoundedAnnouncingProvider(provider, provider, limits, pace)
    return BoundedProvider(provider, limits, pace)


def _said(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _where(error: Exception) -> str:
    """File and line of the code that raised it: what stood in variables there may be secret."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _consume(calling: "asyncio.Future[Any]") -> None:
    """Consume the result of a call that no task waits for any more."""
    if not calling.cancelled():
        calling.exception()
