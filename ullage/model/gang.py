"""Facts of a gang: pods that are placed together or not at all."""

import msgspec

from ullage.model.event import ObjectKey


class PodGroup(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a PodGroup says of the gang that has its name."""

    key: ObjectKey
    min_member: int = 1
    timeout: float | None = None
    """Seconds the gang may take; None where it does not say."""
