"""Several things at once: so many at a time, and none left running when they are no longer wanted."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
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


async def ended(*tasks: "asyncio.Task[Any]") -> None:
    """Stop those that still run. What they raised is not asked for any more."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
