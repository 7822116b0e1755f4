"""GPU policies by the names settings use."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ullage.decide.score.baselines import BEST_FIT, PACKING, SPREAD
from ullage.decide.score.chance import Chance
from ullage.decide.score.columns import GpuPolicy
from ullage.decide.score.fragmentation import Fragmentation
from ullage.decide.score.mix import Typical

PolicyMaker = Callable[[Typical, NDArray[np.float64]], GpuPolicy]
"""Makes a policy for a mix of pods and the number of GPUs of each model."""

DEFAULT_POLICY = "fragmentation"


def _whatever_the_mix(policy: GpuPolicy) -> PolicyMaker:
    return lambda *_: policy


POLICIES: Mapping[str, PolicyMaker] = {
    DEFAULT_POLICY: Fragmentation,
    "best-fit": _whatever_the_mix(BEST_FIT),
    "packing": _whatever_the_mix(PACKING),
    "spread": _whatever_the_mix(SPREAD),
}

CHANCE = "random"


def policy_maker(name: str) -> PolicyMaker:
    """The policy of this name. Simulations have one more: `random`, and with a seed `random/7`. Raises KeyError."""
    base, _, seed = name.partition("/")
    return _whatever_the_mix(Chance(int(seed or 0))) if base == CHANCE else POLICIES[name]
