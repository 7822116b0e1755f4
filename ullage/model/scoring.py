"""Scoring policies by name: the one list that settings, flags, profiles and the scorers' table share.

The scorers themselves are in `decide.placement.score`.
"""

from enum import StrEnum

DEFAULT_SCHEDULER = "gpu-scheduler"
"""Scheduler name of the default profile: pods that name it are placed by `ullage scheduler`."""


class ScoringPolicy(StrEnum):
    """Way GPUs are packed."""

    FRAGMENTATION = "fragmentation"
    BEST_FIT = "best-fit"
    PACKING = "packing"
    SPREAD = "spread"
    RANDOM = "random"
    """Baseline to compare with: for simulations, and refused by live programs."""


DEFAULT_POLICY = ScoringPolicy.FRAGMENTATION
LIVE_POLICIES = tuple(policy.value for policy in ScoringPolicy if policy is not ScoringPolicy.RANDOM)
