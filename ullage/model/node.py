"""A node as decisions see it."""

import msgspec


class Taint(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: str
    effect: str


class Node(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one node. `allocatable` is in thousandths (see `model.resources`)."""

    name: str
    uid: str
    created: float
    ready: bool
    unschedulable: bool
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    allocatable: dict[str, int]
    images: tuple[tuple[str, int], ...] = ()
    """Names of images it has, with their size in bytes, sorted."""
    kept: bool = False
    """Its owner says that it is not to be removed."""
    provider_id: str = ""
    """What its cloud calls its machine."""
