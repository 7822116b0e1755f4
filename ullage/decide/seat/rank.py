"""How a node ranks for a pod, as one number: the larger the better.

From the top: whether the topology the claim prefers holds; the soft scores, as kube-scheduler adds them up; how tightly
MIG instances are packed; then the key of the GPU policy (its level, then least idle GPU). A field that does not apply
is 0. Ties are broken by the order nodes are kept in.
"""

from collections.abc import Set as AbstractSet

import numpy as np
import numpy.typing as npt

from ullage.decide.devices.board import DeviceBoard
from ullage.decide.devices.choice import Choice
from ullage.decide.score.columns import IDLE_BITS

Ranks = npt.NDArray[np.int64]

NEVER = -(1 << 62)
"""The rank of a node that does not fit."""

_KEY_BITS, _TIGHTNESS_BITS, _SOFT_BITS = 33, 16, 11
TIGHTNESS = _KEY_BITS
SOFT = TIGHTNESS + _TIGHTNESS_BITS
"""Bits to shift soft scores by."""
_TOPOLOGY = SOFT + _SOFT_BITS
LEAST_KEY = -(1 << (_KEY_BITS - 1))
"""Keys below it all count the same."""

_MOST_TIGHTNESS = (1 << _TIGHTNESS_BITS) - 1
_GIB = 1 << 30


def level_of(rank: int) -> int:
    """The level of the GPU policy in a rank."""
    key = (rank - LEAST_KEY & (1 << _KEY_BITS) - 1) + LEAST_KEY
    return -(-key >> IDLE_BITS)


def soft_of(rank: int) -> int:
    """The soft scores in a rank."""
    return (rank - LEAST_KEY >> SOFT) & (1 << _SOFT_BITS) - 1


def merit(board: DeviceBoard | None, choice: Choice) -> int:
    """What the devices themselves bring to the rank of their node: topology that holds, instances that fit tightly."""
    kept = int(choice.satisfied) << _TOPOLOGY
    if board is None or not choice.instances:
        return kept
    return kept + (_tightness(board, frozenset(choice.instances)) << TIGHTNESS)


def _tightness(board: DeviceBoard, taken: AbstractSet[str]) -> int:
    """Small instances first, then few GPUs that nobody uses yet."""
    instances = board.layout.instances
    in_use = {one.device for place, one in enumerate(instances) if not board.free_instances >> place & 1}
    chosen = [one for one in instances if one.uuid in taken]
    opened = len({one.device for one in chosen} - in_use)
    size = sum(one.memory for one in chosen) // _GIB
    return max(_MOST_TIGHTNESS - 32 * size - opened, 0)
