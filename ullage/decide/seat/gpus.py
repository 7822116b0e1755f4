"""What each node's GPUs say to an ask: a code for every row, repaired where rows changed.

*Leased* nodes answer by exact devices. *Counted* ones answer by number, which the resource rules have asked already,
and by what their inventory says of model and memory. Nodes nobody reports on have no GPUs we could promise exactly.
"""

import numpy as np

from ullage.decide.devices.board import DeviceBoard, empty_board
from ullage.decide.devices.choice import Choice
from ullage.decide.devices.choosing import choose
from ullage.decide.fit.codes import CODE, Codes
from ullage.decide.seat.boards import Boards
from ullage.model.claim import DeviceAsk, Exclusivity, TopologyMode
from ullage.model.resources import GPU
from ullage.model.verdict import Reason, Verdict
from ullage.state.gpus import Kind
from ullage.state.placements import Placements

STALE_AFTER = 90.0
"""Seconds after which a node's inventory is no longer believed."""

MOST_ASKS = 256
MOST_BOARDS = 65_536

_STALE = CODE[Reason.INVENTORY_STALE]
_NO_GPUS = CODE[Reason.NO_GPUS]


class _AskVerdicts:
    """Codes over rows for one ask, whatever the time; and by board, as nodes pass through the same states again."""

    def __init__(self, ask: DeviceAsk) -> None:
        self.codes: Codes = np.zeros(0, np.uint8)
        self.version = -1
        self._ask = ask
        self._by_board: dict[DeviceBoard, int] = {}

    def on(self, board: DeviceBoard) -> int:
        code = self._by_board.get(board)
        if code is None:
            if len(self._by_board) >= MOST_BOARDS:
                self._by_board.clear()
            answer = choose(board, self._ask)
            code = self._by_board[board] = CODE[answer.reason] if isinstance(answer, Verdict) else 0
        return code


class GpuTable:
    """Asks about all rows; remembers answers by ask."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self._known: dict[DeviceAsk, _AskVerdicts] = {}
        self.boards = Boards(placements)

    def codes(self, ask: DeviceAsk, *, now: float) -> Codes:
        """A code for every row; 0 fits."""
        columns = self._placements.columns
        known = self._repaired(ask)
        # Leased nodes are believed only while they report; counted ones answer by what kubelet advertises.
        stale = (columns.gpus.kind[: columns.size] == Kind.LEASED) & (
            columns.gpus.reported_at[: columns.size] < now - STALE_AFTER
        )
        if not stale.any():
            return known
        return np.where(stale & (known != _NO_GPUS), np.uint8(_STALE), known)

    def verdict(self, ask: DeviceAsk, row: int, *, now: float) -> Choice | Verdict:
        """The answer of one row in full."""
        gpus = self._placements.columns.gpus
        answer = self.choice(ask, row)
        bare = isinstance(answer, Verdict) and answer.reason is Reason.NO_GPUS
        if not bare and gpus.kind[row] == Kind.LEASED and gpus.reported_at[row] < now - STALE_AFTER:
            age = now - float(gpus.reported_at[row])
            heard = f"last heard of {age:.0f} s ago" if np.isfinite(age) else "never heard of"
            return Verdict(Reason.INVENTORY_STALE, f"its GPUs were {heard}")
        return answer

    def choice(self, ask: DeviceAsk, row: int, leaning: int | None = None) -> Choice | Verdict:
        """The devices of a row for this ask, or why none. On counted nodes no devices are named."""
        kind = self._placements.columns.gpus.kind[row]
        board = self.boards.of(row)
        if kind == Kind.LEASED and board is not None:
            return choose(board, ask, leaning)
        if kind == Kind.LEASED:
            return Verdict(Reason.INVENTORY_STALE, "its GPUs were never reported")
        if not self._advertises(row):
            return Verdict(Reason.NO_GPUS, "the node has no GPUs")
        refusal = self._by_count(ask, board)
        return Choice(ids=(), islands=0, satisfied=True) if refusal is None else refusal

    def _by_count(self, ask: DeviceAsk, board: DeviceBoard | None) -> Verdict | None:
        """What speaks against a node whose device plugin chooses. Whether enough are free is asked elsewhere."""
        if ask.exclusivity is not Exclusivity.EXCLUSIVE:
            reason = Reason.NO_ROOM_FOR_SHARE if ask.exclusivity is Exclusivity.SHARED else Reason.NO_MIG_INSTANCE
            return Verdict(reason, "the node's device plugin gives whole GPUs only")
        if board is not None:
            # All we can know is whether an empty node like this could serve.
            could = choose(empty_board(board.layout), ask)
            return could if isinstance(could, Verdict) else None
        linked = ask.topology is TopologyMode.REQUIRED and (ask.count > 1 or ask.min_bandwidth)
        if ask.model or ask.memory or ask.tflops or ask.prefer_ids or linked:
            return Verdict(Reason.NO_GPUS, "nobody reports which GPUs the node has")
        return None

    def _advertises(self, row: int) -> bool:
        columns = self._placements.columns
        return bool(columns.allocatable[columns.resource(GPU), row] > 0)

    def _repaired(self, ask: DeviceAsk) -> Codes:
        columns = self._placements.columns
        known = self._known.pop(ask, None) or _AskVerdicts(ask)
        if len(self._known) >= MOST_ASKS:
            del self._known[next(iter(self._known))]
        self._known[ask] = known  # last in the dict: asked for most recently
        changed = columns.changed.since(known.version) if known.version >= 0 else None
        if changed is None or len(known.codes) < columns.size:
            known.codes = np.zeros(columns.capacity, np.uint8)
            changed = range(columns.size)
        for row in changed:
            known.codes[row] = self._code(ask, known, row) if columns.names[row] else 0
        known.version = columns.changed.version
        return known.codes[: columns.size]

    def _code(self, ask: DeviceAsk, known: _AskVerdicts, row: int) -> int:
        if self._placements.columns.gpus.kind.item(row) == Kind.LEASED:
            board = self.boards.of(row)
            return known.on(board) if board is not None else _STALE
        answer = self.choice(ask, row)
        return CODE[answer.reason] if isinstance(answer, Verdict) else 0
