"""Bounded concurrency: at most so many tasks at a time, and none left running when the caller ends."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def each(items: Sequence[T], do: Callable[[T], Coroutine[Any, Any, R]], *, at_once: int) -> tuple[R, ...]:
    """Run `do` for all items, at most `at_once` at a time; results in the order of items. One that raises stops all."""
    turn = asyncio.Semaphore(at_once)

    async def in_turn(item: T) -> R:
        async with turn:
            return await do(item)

    tasks = [asyncio.create_task(in_turn(item)) for item in items]
    try:
        return tuple(await asyncio.gather(*tasks))
    finally:
        await ended(*tasks)


class KeyedLocks:
    """Locks by key."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    @property
    def busy(self) -> bool:
        """True if any lock is held or waited for."""
        return bool(self._locks)

    @asynccontextmanager
    async def through(self, names: Iterable[Hashable]) -> AsyncIterator[None]:
        """Hold the locks of all these keys, taken in the order given. All callers must use the same order."""
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
    """Cancel tasks that still run and wait for them. Their exceptions are dropped."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
