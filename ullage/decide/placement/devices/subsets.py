"""Best set of free devices: every subset of the right size is ranked, and the answer cached.

A node has at most 16 devices, so all its sets fit in one table of 65,536. A picker is made once per wiring and rule;
asked again about the same free devices it answers from its cache. All nodes with the same wiring share it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ullage.decide.placement.devices.layout import Mask, NvlinkTopology
from ullage.model.claim import DevicePolicy, TopologyMode
from ullage.model.device import MOST_DEVICES
from ullage.model.verdict import Reason

Sets = NDArray[np.uint16]
Ranks = NDArray[Any]
Order = Callable[[Sets], Ranks]
"""Order of sets, as ranks; the lowest are best."""

_ALL: Sets = np.arange(1 << MOST_DEVICES, dtype=np.uint32).astype(np.uint16)
_SIZES: NDArray[np.uint8] = np.bitwise_count(_ALL)
_RUNS: NDArray[np.uint8] = np.bitwise_count(_ALL & ~(_ALL << np.uint16(1)))
"""Runs of adjacent ids: 1 for {2, 3, 4}, 2 for {2, 4}."""


@dataclass(frozen=True, slots=True)
class SubsetRule:
    """Fields of a device request that decide between suitable sets of devices."""

    count: int
    policy: DevicePolicy = DevicePolicy.CONTIGUOUS
    topology: TopologyMode = TopologyMode.PREFERRED
    min_bandwidth: int = 0


class PickedDevices(NamedTuple):
    """Best set, the number of islands it touches, and True in `linked` if its NVLink suffices for the claim."""

    devices: Mask
    islands: int
    linked: bool


class DevicePicker:
    """Best sets under one rule on one wiring."""

    def __init__(self, wiring: NvlinkTopology, rule: SubsetRule) -> None:
        self._rule = rule
        self._islands = np.array(wiring.islands, dtype=np.uint16)[:, None]
        fast_enough = [rule.count == 1 or bandwidth >= rule.min_bandwidth for bandwidth in wiring.bandwidth]
        self._fast = np.array(fast_enough, dtype=np.bool_)[:, None]
        self._known: dict[Mask, PickedDevices | Reason] = {}

    def pick(self, free: Mask) -> PickedDevices | Reason:
        """Best `count` of these devices, or the reason for none. `free` must have at least `count` devices."""
        picked = self._known.get(free)
        if picked is None:
            picked = self._known[free] = self._best(free, self._orders(free, ()))
        return picked

    def pick_part(self, roomy: Mask, free: tuple[int, ...]) -> PickedDevices | Reason:
        """Best `count` devices for a part of each: the fullest first, or the emptiest if the policy is SPREAD."""
        return self._best(roomy, self._orders(roomy, free))

    def _best(self, free: Mask, orders: Iterator[Order]) -> PickedDevices | Reason:
        sets = _of_size(self._rule.count)
        sets = sets[(sets & np.uint16(~free & 0xFFFF)) == 0]
        if self._rule.topology is TopologyMode.REQUIRED:
            linked = self._linked(sets)
            if not linked.any():
                return Reason.BANDWIDTH_TOO_LOW if self._in_one_island(sets).any() else Reason.NO_ISLAND_LARGE_ENOUGH
            sets = sets[linked]
        for order in orders:
            ranks = order(sets)
            sets = sets[ranks == ranks.min()]
            if len(sets) == 1:
                break
        return PickedDevices(int(sets[0]), int(self._touched(sets)[0]), bool(self._linked(sets)[0]))

    def _orders(self, free: Mask, amounts: tuple[int, ...]) -> Iterator[Order]:
        """Orders to apply in turn: the first that tells two sets apart decides."""
        fullness = partial(_total, amounts)
        if self._rule.policy is DevicePolicy.SPREAD:
            yield lambda sets: -self._touched(sets)
            yield self._unevenness
            yield lambda sets: -fullness(sets)
        else:
            if self._rule.topology is TopologyMode.PREFERRED:
                yield lambda sets: ~self._linked(sets)
            yield self._touched
            yield fullness
            yield lambda sets: _RUNS[sets]
            # Largest remaining island first, then the next largest, and so on.
            for place in range(len(self._islands)):
                yield partial(self._damage, free, place)
        yield _lateness

    def _taken(self, sets: Sets) -> NDArray[np.uint8]:
        """Number of devices of each island (rows) in each set (columns)."""
        taken: NDArray[np.uint8] = np.bitwise_count(sets & self._islands)
        return taken

    def _touched(self, sets: Sets) -> NDArray[np.int64]:
        touched: NDArray[np.int64] = np.count_nonzero(self._taken(sets), axis=0)
        return touched

    def _in_one_island(self, sets: Sets) -> NDArray[np.bool_]:
        inside: NDArray[np.bool_] = self._taken(sets) == self._rule.count
        return inside

    def _linked(self, sets: Sets) -> NDArray[np.bool_]:
        linked: NDArray[np.bool_] = np.logical_or.reduce(self._in_one_island(sets) & self._fast, axis=0)
        return linked

    def _unevenness(self, sets: Sets) -> Ranks:
        taken = self._taken(sets).astype(np.int64)
        rank: Ranks = np.add.reduce(taken * taken, axis=0)
        return rank

    def _damage(self, free: Mask, place: int, sets: Sets) -> Ranks:
        left = np.sort(self._taken(~sets & np.uint16(free)), axis=0)[::-1]
        rank: Ranks = -left[place].astype(np.int64)
        return rank


@lru_cache(maxsize=1024)
def picker_for(wiring: NvlinkTopology, rule: SubsetRule) -> DevicePicker:
    """DevicePicker of a rule, shared by all nodes with the same wiring."""
    return DevicePicker(wiring, rule)


@lru_cache(maxsize=512)
def room_in_one_island(wiring: NvlinkTopology, min_bandwidth: int = 0) -> NDArray[np.uint8]:
    """Table over all sets of free devices: most devices of the set in one island of at least that bandwidth.

    Index it with a column of masks: `room_in_one_island(wiring)[free] >= count`.
    """
    room = np.zeros(len(_ALL), dtype=np.uint8)
    for island, bandwidth in zip(wiring.islands, wiring.bandwidth, strict=True):
        if bandwidth >= min_bandwidth:
            np.maximum(room, np.bitwise_count(_ALL & np.uint16(island)), out=room)
    room.flags.writeable = False
    return room


@lru_cache(maxsize=MOST_DEVICES + 1)
def _of_size(count: int) -> Sets:
    fitting: Sets = np.flatnonzero(np.equal(_SIZES, count)).astype(np.uint16)
    return fitting


def _total(amounts: tuple[int, ...], sets: Sets) -> Ranks:
    """Sum of free thousandths on the devices of each set."""
    total = np.zeros(len(sets), dtype=np.int64)
    for device, amount in enumerate(amounts):
        total += np.where(sets & np.uint16(1 << device), amount, 0)
    return total


def _lateness(sets: Sets) -> Ranks:
    """Lowest ids first: {0, 3} before {1, 2}. Reads the bits from the other end, so that id 0 weighs most."""
    late = np.zeros(len(sets), dtype=np.int64)
    for device in range(MOST_DEVICES):
        late -= np.where(sets & np.uint16(1 << device), 1 << (MOST_DEVICES - device), 0)
    return late
