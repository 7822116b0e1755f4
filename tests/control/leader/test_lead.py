"""How `lead` ends: whatever happens meanwhile, the work and the renewals are over before it is."""

import asyncio

from ullage.clock import Clock
from ullage.control.leader.leadership import Leadership, lead
from ullage.sim.virtual_time import loop_clock, run_virtual


class EverWilling:
    """A candidate who is elected at once and never loses."""

    def __init__(self, clock: Clock) -> None:
        self.leadership = Leadership("me", 1, clock, margin=2.0)
        self.renewals = 0
        self.releases = 0

    async def acquire(self) -> Leadership:
        return self.leadership

    async def keep(self, leadership: Leadership) -> None:
        while True:
            leadership.extend(asyncio.get_running_loop().time() + 15)
            self.renewals += 1
            await asyncio.sleep(2)

    async def release(self, leadership: Leadership) -> None:
        assert leadership.remaining() == 0
        self.releases += 1


def test_cancelled_twice_it_still_leaves_nothing_running() -> None:
    async def story() -> None:
        candidate = EverWilling(loop_clock())
        ended = asyncio.Event()

        async def work(_: Leadership) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                try:
                    await asyncio.sleep(5)  # puts things in order
                finally:
                    ended.set()

        leading = asyncio.create_task(lead(candidate, work))
        await asyncio.sleep(10)
        for _ in range(2):
            leading.cancel()
            await asyncio.sleep(1)
        await asyncio.wait((leading,))
        assert leading.cancelled()
        assert ended.is_set()
        assert candidate.releases == 1
        renewals = candidate.renewals
        await asyncio.sleep(60)
        assert candidate.renewals == renewals

    run_virtual(story())
