"""A machine at a cloud, as its provider lists it. It may have become a Node, or not yet, or never."""

from enum import StrEnum

import msgspec


class InstanceState(StrEnum):
    REQUESTED = "Requested"
    """Accepted, and not yet a machine with an id of its own."""
    PENDING = "Pending"
    RUNNING = "Running"
    STOPPING = "Stopping"
    """On its way out; it takes no pods and is not counted."""


class Instance(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one machine."""

    id: str
    pool: str
    """The provisioner it was made for."""
    since: float
    state: InstanceState = InstanceState.RUNNING
    token: str = ""
    """Of the purchase it was made by, where the provider can tell."""
    node: str = ""
    """The name of its Node, as far as it is known."""
    provider_id: str = ""
    """As the Node's spec has it."""
    zone: str = ""
