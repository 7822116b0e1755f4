"""A candidate in a thread of its own: calls cross over, and the lease is let go when no write is under way any more."""

import asyncio
import threading
from typing import Any

from ullage.clock import WallClock
from ullage.control.leader.leadership import Leadership
from ullage.control.leader.renewal import RenewalThread


class Elector:
    """One that notes what it is asked for, and where."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes
        self.thread = threading.current_thread().name

    async def release(self, _leadership: Leadership) -> None:
        self._notes.append(f"released in {threading.current_thread().name}")

    async def close(self) -> None:
        self._notes.append("closed")


async def test_the_lease_is_let_go_after_the_last_write_and_the_elector_is_closed_at_the_end() -> None:
    notes = list[str]()
    leadership = Leadership("me", 1, WallClock(), margin=2.0)
    goes_on = asyncio.Event()

    async def slow_write() -> None:
        await goes_on.wait()
        notes.append("written")

    make: Any = lambda: Elector(notes)  # noqa: E731 - typed as what it stands for
    async with RenewalThread(make) as candidate:
        writing = asyncio.create_task(leadership.write(slow_write()))
        await asyncio.sleep(0)
        releasing = asyncio.create_task(candidate.release(leadership))
        await asyncio.sleep(0.05)
        goes_on.set()
        await asyncio.gather(writing, releasing)
    assert notes == ["written", "released in lease renewal", "closed"]
