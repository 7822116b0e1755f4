"""Instance of a cloud, as its provider lists it. It may have become a Node, or not yet, or never."""

from enum import StrEnum

import msgspec

from ullage.model.units import Instant


class InstanceState(StrEnum):
    REQUESTED = "Requested"
    """Accepted by the cloud, and without an instance id yet."""
    PENDING = "Pending"
    RUNNING = "Running"
    STOPPING = "Stopping"
    """Being terminated: it takes no pods and is not counted."""


class Instance(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one instance."""

    id: str
    pool: str
    """Provisioner it was made for."""
    since: Instant
    state: InstanceState = InstanceState.RUNNING
    token: str = ""
    """Token of the purchase it was made by, where the provider knows it."""
    node: str = ""
    """Name of its Node, where known."""
    provider_id: str = ""
    """providerID, as in the Node's spec."""
    zone: str = ""
