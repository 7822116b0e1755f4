"""A disruption budget as decisions see it: how many evictions are left, and of whom."""

import msgspec

from ullage.model.event import ObjectKey
from ullage.model.selector import Selector


class Budget(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one PodDisruptionBudget. `current` is false while its controller has not seen the latest spec."""

    key: ObjectKey
    uid: str
    selector: Selector
    current: bool
    disruptions_allowed: int
    current_healthy: int
    desired_healthy: int
    evict_unhealthy: bool
