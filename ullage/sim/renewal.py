"""Leader election inside a simulated process, in a thread of its own as in live ones: thinking costs no lease."""

from ullage.control.leader.leadership import LeaderCandidate, Leadership
from ullage.sim.process import ProcessRun

_THREAD = "renewal"


class SimulatedRenewal:
    """A `LeaderCandidate` whose calls run in another thread of the same process."""

    def __init__(self, life: ProcessRun, candidate: LeaderCandidate) -> None:
        self._life = life
        self._candidate = candidate

    async def acquire(self) -> Leadership:
        return await self._life.spawn(self._candidate.acquire(), name="acquire", thread=_THREAD)

    async def keep(self, leadership: Leadership) -> None:
        await self._life.spawn(self._candidate.keep(leadership), name="keep", thread=_THREAD)

    async def release(self, leadership: Leadership) -> None:
        await leadership.settled(within=0.0)
        await self._life.spawn(self._candidate.release(leadership), name="release", thread=_THREAD)
