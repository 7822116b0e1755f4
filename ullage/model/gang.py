"""Facts of a gang: pods that are placed together or not at all."""

import msgspec

from ullage.model.fact_event import ObjectKey
from ullage.model.units import Seconds


class PodGroup(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one PodGroup: minimum size and timeout of the gang of the same name."""

    key: ObjectKey
    min_member: int = 1
    timeout: Seconds | None = None
    """Seconds the gang may take to be placed; None where the PodGroup does not say."""
