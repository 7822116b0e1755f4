"""Node as decisions see it."""

import msgspec

from ullage.model.units import Instant


class Taint(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: str
    effect: str


class Node(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one node. `allocatable` is in thousandths (see `model.resources`)."""

    name: str
    uid: str
    created: Instant
    ready: bool
    unschedulable: bool
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    allocatable: dict[str, int]
    images: tuple[tuple[str, int], ...] = ()
    """Names of images it has, with their size in bytes, sorted."""
    kept: bool = False
    """The node's owner forbids its removal."""
    provider_id: str = ""
    """Instance of the node, in its cloud's spelling (`spec.providerID`)."""
    starting: bool = False
    """The node is not ready and never was: its kubelet has registered it and is not done."""
