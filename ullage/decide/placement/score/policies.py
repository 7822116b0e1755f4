"""GPU policies by the names settings use."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ullage.decide.placement.score.baselines import BEST_FIT, PACKING, SPREAD
from ullage.decide.placement.score.fragmentation import FragmentationScorer
from ullage.decide.placement.score.gpu_scorer import GpuScorer
from ullage.decide.placement.score.random_policy import RandomScorer
from ullage.decide.placement.score.workload_mix import TypicalDemands

PolicyMaker = Callable[[TypicalDemands, NDArray[np.float64]], GpuScorer]
"""Factory of a policy, from the typical demands and the number of GPUs of each model."""

DEFAULT_POLICY = "fragmentation"


def _whatever_the_mix(policy: GpuScorer) -> PolicyMaker:
    return lambda *_: policy


POLICIES: Mapping[str, PolicyMaker] = {
    DEFAULT_POLICY: FragmentationScorer,
    "best-fit": _whatever_the_mix(BEST_FIT),
    "packing": _whatever_the_mix(PACKING),
    "spread": _whatever_the_mix(SPREAD),
}

CHANCE = "random"


def policy_maker(name: str) -> PolicyMaker:
    """Factory of the policy of this name. Simulations add `random`, or `random/7` with a seed. Raises KeyError."""
    base, _, seed = name.partition("/")
    return _whatever_the_mix(RandomScorer(int(seed or 0))) if base == CHANCE else POLICIES[name]
