"""Several things at once: so many at a time, and none left running when they are no longer wanted."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def each(items: Sequence[T], do: Callable[[T], Coroutine[Any, Any, R]], *, at_once: int) -> tuple[R, ...]:
    """Do it for all, at most so many at once; the results in the order of the items. One that raises stops the rest."""
    turn = asyncio.Semaphore(at_once)

    async def in_turn(item: T) -> R:
        async with turn:
            return await do(item)

    tasks = [asyncio.create_task(in_turn(item)) for item in items]
    try:
        return tuple(await asyncio.gather(*tasks))
    finally:
        await ended(*tasks)


class Turnstile:
    """Things that must not be worked on by two at once, by what they are called."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    @property
    def busy(self) -> bool:
        """Whether anybody is there, or waits to be."""
        return bool(self._locks)

    @asynccontextmanager
    async def through(self, names: Iterable[Hashable]) -> AsyncIterator[None]:
        """Alone with all of these, in the order given: everybody has to give them in the same."""
        async with AsyncExitStack() as held:
            for name in names:
                await held.enter_async_context(self._alone_with(name))
            yield

    @asynccontextmanager
    async def _alone_with(self, name: Hashable) -> AsyncIterator[None]:
        lock, users = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(name)
            if users > 1:
                self._locks[name] = lock, users - 1


async def ended(*tasks: "asyncio.Task[Any]") -> None:
    """Stop those that still run. What they raised is not asked for any more."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
