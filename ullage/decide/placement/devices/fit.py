"""Device filter: a code for every row and device request, cached by the number of the row's NodeDevices.

*Leased* nodes are checked by exact devices. *Counted* nodes are checked by model and memory of their inventory; the
resource filters have checked the number already. A node without an inventory has no GPUs that could be given exactly.
"""

from copy import copy

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.devices.choice import DeviceChoice
from ullage.decide.placement.devices.choose import choose
from ullage.decide.placement.devices.freshness import STALE_AFTER, InventoryFreshness
from ullage.decide.placement.devices.layout import FreeDevices, empty_devices
from ullage.decide.placement.devices.snapshots import DeviceSnapshots, NodeDevices
from ullage.decide.placement.filters.codes import CODE, Codes
from ullage.decide.placement.rank import Ranks, merit
from ullage.model.claim import DeviceRequest, Exclusivity, TopologyMode
from ullage.model.units import Instant
from ullage.model.verdict import Reason, Verdict
from ullage.state.device_columns import NodeKindCode
from ullage.state.snapshot import ClusterSnapshot

MOST_ASKS = 1024

_STALE = CODE[Reason.INVENTORY_STALE]
_BARE = (CODE[Reason.NO_GPUS], CODE[Reason.INVENTORY_MISSING])
"""Codes of rows without a report: it cannot be too old."""
_UNASKED = 254

Numbers = npt.NDArray[np.intp]


class DeviceAnswers:
    """Answers to one device request, by NodeDevices number. Staleness is not checked here."""

    def __init__(self, ask: DeviceRequest, devices: DeviceSnapshots) -> None:
        self.ask = ask
        self._devices = devices
        self._forget()

    def fork_for(self, devices: DeviceSnapshots) -> "DeviceAnswers":
        """Return a copy for forked numbers of NodeDevices."""
        twin = copy(self)
        twin._devices, twin._codes, twin._merits = devices, self._codes.copy(), self._merits.copy()
        twin._answers, twin._lasting = self._answers.copy(), self._lasting.copy()
        return twin

    def _forget(self) -> None:
        self._generation = self._devices.generation
        self._codes: Codes = np.full(64, _UNASKED, np.uint8)
        self._merits: Ranks = np.zeros(64, np.int64)
        self._answers: dict[tuple[int, int], DeviceChoice | Verdict] = {}
        self._lasting: dict[int, int] = {}

    def lasting(self, number: int) -> int:
        """Code of the same node without any pod; 0 if it would fit then."""
        self._reach()
        known = self._lasting.get(number)
        if known is None:
            node_devices = self._devices.distinct[number]
            empty = None if node_devices.gpus is None else empty_devices(node_devices.gpus.layout)
            answer = answer_of(node_devices._replace(gpus=empty), self.ask)
            known = self._lasting[number] = CODE[answer.reason] if isinstance(answer, Verdict) else 0
        return known

    def codes(self, numbers: Numbers) -> Codes:
        """Codes of these numbers; 0 fits."""
        self._reach()
        codes = self._codes.take(numbers)
        unasked = codes == _UNASKED
        if np.count_nonzero(unasked):
            for number in set(numbers[unasked].tolist()):
                self._ask(number)
            codes = self._codes.take(numbers)
        return codes

    def merits(self, numbers: Numbers) -> Ranks:
        """Parts of node ranks that devices give (`rank.merit`); for numbers whose code was read before and fits."""
        return self._merits.take(numbers)

    def code(self, number: int) -> int:
        self._reach()
        code = self._codes.item(number)
        return self._ask(number) if code == _UNASKED else code

    def merit(self, number: int) -> int:
        return self._merits.item(number)

    def answer(self, number: int, leaning: int = -1) -> DeviceChoice | Verdict:
        """Full answer. `leaning` is the device a score found best for a single share; -1 for none."""
        self._reach()
        known = self._answers.get((number, leaning))
        if known is None:
            node_devices = self._devices.distinct[number]
            known = answer_of(node_devices, self.ask, None if leaning < 0 else leaning)
            self._answers[number, leaning] = known
        return known

    def _reach(self) -> None:
        """Extend the caches to all numbers in use, and clear them if the numbering started again."""
        if self._generation != self._devices.generation:
            self._forget()
        more = len(self._devices.distinct) - len(self._codes)
        if more > 0:
            more = max(more, len(self._codes))
            self._codes = np.concatenate((self._codes, np.full(more, _UNASKED, np.uint8)))
            self._merits = np.concatenate((self._merits, np.zeros(more, np.int64)))

    def _ask(self, number: int) -> int:
        node_devices, answer = self._devices.distinct[number], self.answer(number)
        if isinstance(answer, Verdict):
            # A row without a node has no GPUs to speak of: other rules say that there is none.
            code = CODE[answer.reason] if number else 0
        else:
            code = 0
            self._merits[number] = merit(node_devices.gpus, answer)
        self._codes[number] = code
        return code


class DeviceFitTable:
    """Device answers for all rows, cached by device request."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[DeviceRequest, DeviceAnswers] = {}
        self.devices = DeviceSnapshots(snapshot)
        self.freshness = InventoryFreshness(snapshot)

    def fork_for(self, snapshot: ClusterSnapshot) -> "DeviceFitTable":
        """Return a copy for the forked snapshot: the same numbers and answers."""
        twin = DeviceFitTable(snapshot)
        twin.devices = self.devices.fork_for(snapshot)
        twin._known = {ask: answers.fork_for(twin.devices) for ask, answers in self._known.items()}
        return twin

    def table(self, ask: DeviceRequest) -> DeviceAnswers:
        """Answers to this device request."""
        known = self._known.pop(ask, None)
        if known is None:
            known = DeviceAnswers(ask, self.devices)
            if len(self._known) >= MOST_ASKS:
                del self._known[next(iter(self._known))]
        self._known[ask] = known  # last in the dict: most recently used
        return known

    def codes(self, ask: DeviceRequest, *, now: Instant) -> Codes:
        """Codes of all rows; 0 fits."""
        size = self._snapshot.columns.size
        known = self.table(ask).codes(self.devices.refresh()[:size])
        self.freshness.refresh(now)
        return with_stale(known, self.freshness.stale[:size])

    def lasting(self, ask: DeviceRequest) -> Codes:
        """Codes of all rows as if no pod were on them; 0 fits. Reports are taken as fresh."""
        numbers = self.devices.refresh()[: self._snapshot.columns.size]
        table = self.table(ask)
        codes = np.zeros(len(numbers), np.uint8)
        for number in np.unique(numbers).tolist():
            codes[numbers == number] = table.lasting(number)
        return codes

    def code(self, ask: DeviceRequest, row: int, *, now: Instant) -> int:
        """Code of one row."""
        code = self.table(ask).code(self.devices.refresh().item(row))
        self.freshness.refresh(now)
        return _STALE if self.freshness.stale[row] and code not in _BARE else code

    def verdict(self, ask: DeviceRequest, row: int, *, now: Instant) -> DeviceChoice | Verdict:
        """Full answer of one row, with staleness."""
        gpus = self._snapshot.columns.gpus
        answer = self.choice(ask, row)
        bare = isinstance(answer, Verdict) and CODE[answer.reason] in _BARE
        if not bare and gpus.kind[row] == NodeKindCode.LEASED and gpus.reported_at[row] < now - STALE_AFTER:
            age = now - float(gpus.reported_at[row])
            return Verdict(Reason.INVENTORY_STALE, f"its GPUs were last heard of {age:.0f} s ago")
        return answer

    def choice(self, ask: DeviceRequest, row: int) -> DeviceChoice | Verdict:
        """Devices of a row for this request, or the verdict for none. On counted nodes the choice has no ids."""
        return self.table(ask).answer(self.devices.refresh().item(row))


def with_stale(codes: Codes, stale: npt.NDArray[np.bool_]) -> Codes:
    """Codes, with INVENTORY_STALE on stale rows that have GPUs."""
    return np.where(stale & ~np.isin(codes, _BARE), np.uint8(_STALE), codes) if stale.any() else codes


def answer_of(node_devices: NodeDevices, ask: DeviceRequest, leaning: int | None = None) -> DeviceChoice | Verdict:
    """Answer of a row with these NodeDevices to this request."""
    if node_devices.kind is NodeKindCode.LEASED:
        if node_devices.gpus is None:
            return Verdict(Reason.INVENTORY_MISSING, "its GPUs were never reported")
        return choose(node_devices.gpus, ask, leaning)
    if node_devices.kind is NodeKindCode.DRA:
        return Verdict(Reason.NO_GPUS, "the node's GPUs are given by ResourceClaims")
    if not node_devices.advertises:
        return Verdict(Reason.NO_GPUS, "the node has no GPUs")
    refusal = _by_count(ask, node_devices.gpus)
    return DeviceChoice(ids=(), islands=0, satisfied=True) if refusal is None else refusal


def _by_count(ask: DeviceRequest, empty: FreeDevices | None) -> Verdict | None:
    """Refusal by a counted node, if any. The resource filters check that enough GPUs are free."""
    if ask.exclusivity is not Exclusivity.EXCLUSIVE:
        reason = Reason.NO_ROOM_FOR_SHARE if ask.exclusivity is Exclusivity.SHARED else Reason.NO_MIG_INSTANCE
        return Verdict(reason, "the node's device plugin gives whole GPUs only")
    if empty is not None:
        # The device plugin chooses: all that is known is whether an empty node like this could serve.
        could = choose(empty, ask)
        return could if isinstance(could, Verdict) else None
    linked = ask.topology is TopologyMode.REQUIRED and (ask.count > 1 or ask.min_bandwidth)
    if ask.model or ask.memory or ask.tflops or ask.prefer_ids or linked:
        return Verdict(Reason.INVENTORY_MISSING, "nobody reports which GPUs the node has")
    return None
