"""Rank of a node for a pod, as one integer: the larger the better.

Fields from the highest bits: the claim's preferred topology holds (1) or not (0); the soft scores, as kube-scheduler
adds them up; tightness of MIG instances; the key of the GPU policy (its level, then least idle GPU). A field that does
not apply is 0. Ties are broken by the order of `NodeRanking.order`.
"""

from collections.abc import Set as AbstractSet

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.devices.choice import DeviceChoice
from ullage.decide.placement.devices.layout import FreeDevices
from ullage.decide.placement.score.gpu_scorer import IDLE_BITS

Ranks = npt.NDArray[np.int64]

NEVER = -(1 << 62)
"""The rank of a node that does not fit."""

_KEY_BITS, _TIGHTNESS_BITS, _SOFT_BITS = 33, 16, 11
TIGHTNESS = _KEY_BITS
SOFT = TIGHTNESS + _TIGHTNESS_BITS
"""Bits to shift soft scores by."""
_TOPOLOGY = SOFT + _SOFT_BITS
LEAST_KEY = -(1 << (_KEY_BITS - 1))
"""Lowest key; keys below it are raised to it."""

_MOST_TIGHTNESS = (1 << _TIGHTNESS_BITS) - 1
_GIB = 1 << 30


def level_of(rank: int) -> int:
    """Level of the GPU policy in a rank."""
    key = (rank - LEAST_KEY & (1 << _KEY_BITS) - 1) + LEAST_KEY
    return -(-key >> IDLE_BITS)


def soft_of(rank: int) -> int:
    """Soft scores in a rank."""
    return (rank - LEAST_KEY >> SOFT) & (1 << _SOFT_BITS) - 1


def merit(gpus: FreeDevices | None, choice: DeviceChoice) -> int:
    """Part of the rank that the chosen devices give: preferred topology holds, MIG instances fit tightly."""
    kept = int(choice.satisfied) << _TOPOLOGY
    if gpus is None or not choice.instances:
        return kept
    return kept + (_tightness(gpus, frozenset(choice.instances)) << TIGHTNESS)


def _tightness(gpus: FreeDevices, taken: AbstractSet[str]) -> int:
    """Tightness of a choice of MIG instances: small instances first, then few GPUs not in use before."""
    instances = gpus.layout.instances
    in_use = {one.device for place, one in enumerate(instances) if not gpus.free_instances >> place & 1}
    chosen = [one for one in instances if one.uuid in taken]
    opened = len({one.device for one in chosen} - in_use)
    size = sum(one.memory for one in chosen) // _GIB
    return max(_MOST_TIGHTNESS - 32 * size - opened, 0)
