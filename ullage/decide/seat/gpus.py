"""What each node's GPUs say to an ask: a code for every row, told by the number of what the row shows.

*Leased* nodes answer by exact devices. *Counted* ones answer by number, which the resource rules have asked already,
and by what their inventory says of model and memory. Nodes nobody reports on have no GPUs we could promise exactly.
"""

import numpy as np
import numpy.typing as npt

from ullage.decide.devices.board import DeviceBoard
from ullage.decide.devices.choice import Choice
from ullage.decide.devices.choosing import choose
from ullage.decide.fit.codes import CODE, Codes
from ullage.decide.seat.boards import Boards, Panel
from ullage.decide.seat.freshness import STALE_AFTER, Freshness
from ullage.decide.seat.rank import Ranks, merit
from ullage.model.claim import DeviceAsk, Exclusivity, TopologyMode
from ullage.model.verdict import Reason, Verdict
from ullage.state.gpus import Kind
from ullage.state.placements import Placements

MOST_ASKS = 1024

_STALE = CODE[Reason.INVENTORY_STALE]
_NO_GPUS = CODE[Reason.NO_GPUS]
_UNASKED = 254

Numbers = npt.NDArray[np.intp]


class AskTable:
    """The answers to one ask, by the number of what a row shows; staleness is not looked at."""

    def __init__(self, ask: DeviceAsk, boards: Boards) -> None:
        self.ask = ask
        self._boards = boards
        self._forget()

    def _forget(self) -> None:
        self._generation = self._boards.generation
        self._codes: Codes = np.full(64, _UNASKED, np.uint8)
        self._merits: Ranks = np.zeros(64, np.int64)
        self._answers: dict[tuple[int, int], Choice | Verdict] = {}

    def codes(self, numbers: Numbers) -> Codes:
        """A code for each number; 0 fits."""
        self._reach()
        codes = self._codes.take(numbers)
        unasked = codes == _UNASKED
        if np.count_nonzero(unasked):
            for number in set(numbers[unasked].tolist()):
                self._ask(number)
            codes = self._codes.take(numbers)
        return codes

    def merits(self, numbers: Numbers) -> Ranks:
        """What the devices bring to the rank of their node; for numbers whose code was asked for and fits."""
        return self._merits.take(numbers)

    def code(self, number: int) -> int:
        self._reach()
        code = self._codes.item(number)
        return self._ask(number) if code == _UNASKED else code

    def merit(self, number: int) -> int:
        return self._merits.item(number)

    def answer(self, number: int, leaning: int = -1) -> Choice | Verdict:
        """In full. `leaning` is the device a score found best for a single share; -1 for none."""
        self._reach()
        known = self._answers.get((number, leaning))
        if known is None:
            panel = self._boards.panels[number]
            known = answer_of(panel, self.ask, None if leaning < 0 else leaning)
            self._answers[number, leaning] = known
        return known

    def _reach(self) -> None:
        """Have room for all numbers there are, and none that mean something else now."""
        if self._generation != self._boards.generation:
            self._forget()
        more = len(self._boards.panels) - len(self._codes)
        if more > 0:
            more = max(more, len(self._codes))
            self._codes = np.concatenate((self._codes, np.full(more, _UNASKED, np.uint8)))
            self._merits = np.concatenate((self._merits, np.zeros(more, np.int64)))

    def _ask(self, number: int) -> int:
        panel, answer = self._boards.panels[number], self.answer(number)
        if isinstance(answer, Verdict):
            # A row without a node has no GPUs to speak of: other rules say that there is none.
            code = CODE[answer.reason] if number else 0
        else:
            code = 0
            self._merits[number] = merit(panel.board, answer)
        self._codes[number] = code
        return code


class GpuTable:
    """Asks about all rows; remembers answers by ask."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self._known: dict[DeviceAsk, AskTable] = {}
        self.boards = Boards(placements)
        self.freshness = Freshness(placements)

    def table(self, ask: DeviceAsk) -> AskTable:
        """The answers to this ask."""
        known = self._known.pop(ask, None)
        if known is None:
            known = AskTable(ask, self.boards)
            if len(self._known) >= MOST_ASKS:
                del self._known[next(iter(self._known))]
        self._known[ask] = known  # last in the dict: asked for most recently
        return known

    def codes(self, ask: DeviceAsk, *, now: float) -> Codes:
        """A code for every row; 0 fits."""
        size = self._placements.columns.size
        known = self.table(ask).codes(self.boards.refresh()[:size])
        self.freshness.refresh(now)
        return with_stale(known, self.freshness.stale[:size])

    def code(self, ask: DeviceAsk, row: int, *, now: float) -> int:
        """The same of one row."""
        code = self.table(ask).code(self.boards.refresh().item(row))
        self.freshness.refresh(now)
        return _STALE if self.freshness.stale[row] and code != _NO_GPUS else code

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

    def choice(self, ask: DeviceAsk, row: int) -> Choice | Verdict:
        """The devices of a row for this ask, or why none. On counted nodes no devices are named."""
        return self.table(ask).answer(self.boards.refresh().item(row))


def with_stale(codes: Codes, stale: npt.NDArray[np.bool_]) -> Codes:
    """The codes, where reports are too old to be believed that they are."""
    return np.where(stale & (codes != _NO_GPUS), np.uint8(_STALE), codes) if stale.any() else codes


def answer_of(panel: Panel, ask: DeviceAsk, leaning: int | None = None) -> Choice | Verdict:
    """What a row that shows this gives to this ask."""
    if panel.kind is Kind.LEASED:
        if panel.board is None:
            return Verdict(Reason.INVENTORY_STALE, "its GPUs were never reported")
        return choose(panel.board, ask, leaning)
    if not panel.advertises:
        return Verdict(Reason.NO_GPUS, "the node has no GPUs")
    refusal = _by_count(ask, panel.board)
    return Choice(ids=(), islands=0, satisfied=True) if refusal is None else refusal


def _by_count(ask: DeviceAsk, empty: DeviceBoard | None) -> Verdict | None:
    """What speaks against a node whose device plugin chooses. Whether enough are free is asked elsewhere."""
    if ask.exclusivity is not Exclusivity.EXCLUSIVE:
        reason = Reason.NO_ROOM_FOR_SHARE if ask.exclusivity is Exclusivity.SHARED else Reason.NO_MIG_INSTANCE
        return Verdict(reason, "the node's device plugin gives whole GPUs only")
    if empty is not None:
        # All we can know is whether an empty node like this could serve.
        could = choose(empty, ask)
        return could if isinstance(could, Verdict) else None
    linked = ask.topology is TopologyMode.REQUIRED and (ask.count > 1 or ask.min_bandwidth)
    if ask.model or ask.memory or ask.tflops or ask.prefer_ids or linked:
        return Verdict(Reason.NO_GPUS, "nobody reports which GPUs the node has")
    return None
