"""All checks together. The first breach is the violation: what follows from it is not asked about."""

import asyncio
from collections.abc import Sequence

from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.world.books import Books
from ullage.sim.world.invariants.breach import Breach
from ullage.sim.world.invariants.disruption import DisruptionChecks
from ullage.sim.world.invariants.gangs import GangChecks
from ullage.sim.world.invariants.gpus import GpuChecks
from ullage.sim.world.invariants.places import PlaceChecks
from ullage.sim.world.invariants.pools import PoolChecks
from ullage.sim.world.spec import SCHEDULER


class Checking:
    """Judges from the moment it is armed: until then the world is being made."""

    def __init__(self, books: Books, server: SimulatedApiServer, ours: Sequence[str]) -> None:
        self.breach: Breach | None = None
        self._armed = False
        self._broken = asyncio.Event()
        self._gpus = GpuChecks(books, self._report)
        PlaceChecks(books, server, self._report, SCHEDULER)
        self._gangs = GangChecks(books, server, self._report, SCHEDULER)
        DisruptionChecks(books, server, self._report, ours)
        self.pools = PoolChecks(books, server, self._report)

    def arm(self) -> None:
        self._armed = True

    def check_the_end(self, now: float) -> None:
        """Nothing more is to come: whatever had to happen in time has happened."""
        self._gpus.check_left(now)
        self._gangs.check_deadlines(now)

    async def broken(self) -> Breach:
        """Wait for a breach."""
        await self._broken.wait()
        if self.breach is None:
            raise ValueError("broken without a breach")
        return self.breach

    def _report(self, breach: Breach) -> None:
        if self._armed and self.breach is None:
            self.breach = breach
            self._broken.set()
