"""Scorers of the policies that `model.scoring` names."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ullage.decide.placement.score.baselines import BEST_FIT, PACKING, SPREAD
from ullage.decide.placement.score.fragmentation import FragmentationScorer
from ullage.decide.placement.score.gpu_scorer import GpuScorer
from ullage.decide.placement.score.random_policy import RandomScorer
from ullage.decide.placement.score.workload_mix import TypicalDemands
from ullage.model.scoring import ScoringPolicy

PolicyMaker = Callable[[TypicalDemands, NDArray[np.float64]], GpuScorer]
"""Factory of a policy, from the typical demands and the number of GPUs of each model."""


def _whatever_the_mix(policy: GpuScorer) -> PolicyMaker:
    return lambda *_: policy


POLICIES: Mapping[str, PolicyMaker] = {
    ScoringPolicy.FRAGMENTATION: FragmentationScorer,
    ScoringPolicy.BEST_FIT: _whatever_the_mix(BEST_FIT),
    ScoringPolicy.PACKING: _whatever_the_mix(PACKING),
    ScoringPolicy.SPREAD: _whatever_the_mix(SPREAD),
}
"""All but `random`, which takes a seed."""


def policy_maker(name: str) -> PolicyMaker:
    """Factory of the policy of this name. Simulations add `random`, or `random/7` with a seed. Raises KeyError."""
    base, _, seed = name.partition("/")
    return _whatever_the_mix(RandomScorer(int(seed or 0))) if base == ScoringPolicy.RANDOM else POLICIES[name]
