"""PodDisruptionBudget as decisions see it: its pods, and the evictions it still allows."""

import msgspec

from ullage.model.fact_event import ObjectKey
from ullage.model.selector import Selector


class PodDisruptionBudget(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one PodDisruptionBudget. `current` is false while its controller has not seen the latest spec."""

    key: ObjectKey
    uid: str
    selector: Selector
    current: bool
    disruptions_allowed: int
    current_healthy: int
    desired_healthy: int
    evict_unhealthy: bool
