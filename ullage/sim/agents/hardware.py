"""Which GPUs a simulated node has: boards built after the templates nodes are bought by."""

from collections.abc import Mapping

from ullage.agent.reader import OnXid
from ullage.agent.simulated import MIB, Board, Product, SimulatedReader
from ullage.decide.inventory.sights import Look, Trouble
from ullage.model.device import Health
from ullage.model.provisioner import GpuTemplate

_RECOVERY_ACTION_CHANGED = 154
"""An Xid that says nothing against a GPU: the agent looks at once, and that is all."""

_TROUBLES: Mapping[Health, Trouble] = {Health.UNHEALTHY: Trouble.LOST, Health.UNKNOWN: Trouble.UNREADABLE}


def board_of(gpus: GpuTemplate) -> Board:
    """A board whose GPUs the agent finds to be as the template promised: model, memory, islands, bandwidth."""
    size = gpus.count // max(1, gpus.islands)
    wired = size > 1
    product = Product(
        gpus.model,
        gpus.memory // MIB,
        links=1 if wired else 0,
        rate=gpus.bandwidth or 1,
        group=size if wired and gpus.islands > 1 else 0,
    )
    return Board(gpus.count, product)


class Bench:
    """A `GpuReader` over a board on which things can be made to happen."""

    def __init__(self, board: Board, node: str) -> None:
        self._board = SimulatedReader(board, node)
        self._node = node
        self._tell: OnXid = lambda _uuid, _xid: None

    @property
    def ill(self) -> bool:
        """Whether any of its GPUs is not well."""
        return bool(self._board.troubles)

    async def look(self, *, thorough: bool) -> Look:
        return await self._board.look(thorough=thorough)

    def listen(self, on_xid: OnXid) -> None:
        self._tell = on_xid
        self._board.listen(on_xid)

    async def close(self) -> None:
        await self._board.close()

    def nudge(self) -> None:
        """Have the agent look now."""
        self._tell(f"GPU-{self._node}-0", _RECOVERY_ACTION_CHANGED)

    def becomes(self, gpu: int, health: Health) -> None:
        """A GPU dies with an Xid, as they do; what else befalls it is seen at the next look, which is now."""
        if health is Health.UNHEALTHY:
            self._board.dies(gpu)
            return
        if health is Health.HEALTHY:
            self._board.troubles.pop(gpu, None)
        else:
            self._board.troubles[gpu] = _TROUBLES[health]
        self.nudge()
