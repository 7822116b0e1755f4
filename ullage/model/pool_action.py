"""What can be done to a pool of nodes. Frozen; each says why. One kind of them per loop."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """Ask the provider for nodes. The token makes asking again harmless."""

    provisioner: str
    count: int
    serial: int
    token: str
    why: str
    zone: str = ""
    """Where they must come up; empty leaves it to the provider."""
    least: int = 0
    """Fewer than this are of no use, and are not to be made: a gang waits for them."""
    again: bool = False
    """It has been asked for before, and the answer is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doom:
    """Taint an empty node with the moment after which it may be deleted."""

    node: str
    delete_after: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spare:
    """Take the deletion taint off a node."""

    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deprovision:
    """Delete a node's instance, and the Node. Only while no pod that matters is on it: look again before."""

    node: str
    instance: str
    why: str
    lost: bool = False
    """It never became a usable node."""


PoolAction = Provision | Doom | Spare | Deprovision
