"""Several things at once, and some of them one after another."""

import asyncio

from ullage.act.concurrency import KeyedLocks


async def test_nobody_is_with_the_same_thing_as_another() -> None:
    gates, inside, most = KeyedLocks(), dict.fromkeys("abc", 0), dict.fromkeys("abc", 0)

    async def visit(names: str) -> None:
        async with gates.through(names):
            for name in names:
                inside[name] += 1
                most[name] = max(most[name], inside[name])
            await asyncio.sleep(0.001)
            for name in names:
                inside[name] -= 1

    await asyncio.gather(*(visit(names) for names in ["ab", "bc", "c", "ac", "a", "", "abc"] * 3))
    assert most == dict.fromkeys("abc", 1)
    assert not gates.busy, "nothing is kept of those who left"


async def test_who_is_cancelled_while_waiting_holds_up_nobody() -> None:
    gates, opened = KeyedLocks(), asyncio.Event()

    async def visit() -> None:
        async with gates.through("a"):
            await opened.wait()

    first, second, third = (asyncio.ensure_future(visit()) for _ in range(3))
    await asyncio.sleep(0)
    second.cancel()
    opened.set()
    await asyncio.wait_for(asyncio.gather(first, third), 5)
    assert second.cancelled()
    assert not gates.busy
