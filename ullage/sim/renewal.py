"""Leader election inside a simulated process, in a thread of its own as in live ones: thinking costs no lease."""

from ullage.control.leadership import Candidate, Leadership
from ullage.sim.process import Life

_THREAD = "renewal"


class SimulatedRenewal:
    """A `Candidate` whose calls run in another thread of the same process."""

    def __init__(self, life: Life, candidate: Candidate) -> None:
        self._life = life
        self._candidate = candidate

    async def acquire(self) -> Leadership:
        return await self._life.spawn(self._candidate.acquire(), name="acquire", thread=_THREAD)

    async def keep(self, leadership: Leadership) -> None:
        await self._life.spawn(self._candidate.keep(leadership), name="keep", thread=_THREAD)

    async def release(self, leadership: Leadership) -> None:
        await leadership.settled(within=0.0)
        await self._life.spawn(self._candidate.release(leadership), name="release", thread=_THREAD)
