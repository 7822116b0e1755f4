"""The best set of devices among those free: every subset of the right size is ranked, and the answer remembered.

A node has at most 16 devices, so all its sets fit in one table of 65,536. A picker is made once per wiring and rule;
asked again about the same free devices it answers from memory, and two nodes wired alike share it.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ullage.decide.devices.board import Mask, Wiring
from ullage.model.claim import DevicePolicy, TopologyMode
from ullage.model.device import MOST_DEVICES
from ullage.model.verdict import Reason

Masks = NDArray[np.uint16]
Ranks = NDArray[np.int64]

_ALL: Masks = np.arange(1 << MOST_DEVICES, dtype=np.uint32).astype(np.uint16)
_SIZE = np.bitwise_count(_ALL)
_RUNS = np.bitwise_count(_ALL & ~(_ALL << np.uint16(1)))
"""Runs of adjacent ids: 1 for {2, 3, 4}, 2 for {2, 4}."""


class Rule(NamedTuple):
    """What of a claim decides between sets of devices that would all do."""

    count: int
    policy: DevicePolicy
    topology: TopologyMode
    min_bandwidth: int


class Picked(NamedTuple):
    """The best set, the islands it touches, and whether its devices are linked as the claim would like."""

    devices: Mask
    islands: int
    linked: bool


class Picker:
    """Best sets under one rule on one wiring."""

    def __init__(self, wiring: Wiring, rule: Rule) -> None:
        self._rule = rule
        self._islands = np.array(wiring.islands, dtype=np.uint16)[:, None]
        fast = [bandwidth >= rule.min_bandwidth for bandwidth in wiring.bandwidth]
        self._fast = np.array(fast, dtype=np.bool_)[:, None]
        self._known: dict[Mask, Picked | Reason] = {}

    def pick(self, free: Mask) -> Picked | Reason:
        """The best `count` of these devices, or why none. There must be `count` of them."""
        picked = self._known.get(free)
        if picked is None:
            picked = self._known[free] = self._best(free, None)
        return picked

    def pick_part(self, roomy: Mask, free: tuple[int, ...]) -> Picked | Reason:
        """The same for parts of devices: opened devices are filled first, or spared if the claim is to spread."""
        return self._best(roomy, free)

    def _best(self, free: Mask, amounts: tuple[int, ...] | None) -> Picked | Reason:
        sets = _of_size(self._rule.count)
        sets = sets[(sets & np.uint16(~free & 0xFFFF)) == 0]
        whole = self._taken(sets) == self._rule.count
        if self._rule.topology is TopologyMode.REQUIRED:
            linked = self._linked(whole)
            if not linked.any():
                return Reason.BANDWIDTH_TOO_LOW if whole.any() else Reason.NO_ISLAND_LARGE_ENOUGH
            sets = sets[linked]
        ranks = self._spread(sets, amounts) if self._rule.policy is DevicePolicy.SPREAD else None
        for place in range(ranks.shape[0] if ranks is not None else 0):
            ...
        raise NotImplementedError

    def _taken(self, sets: Masks) -> NDArray[np.uint8]:
        """How many devices of each island (rows) each set (columns) has."""
        return np.bitwise_count(sets[None, :] & self._islands)
