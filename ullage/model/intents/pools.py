"""Intents of provisioning: nodes of pools."""

from dataclasses import dataclass

from ullage.model.units import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    """Request nodes from the provider. The token makes a repeated request harmless."""

    provisioner: str
    count: int
    serial: int
    token: str
    why: str
    zone: str = ""
    """Zone the nodes must come up in; empty leaves it to the provider."""
    least: int = 0
    """Smallest useful number: fewer are not to be made, because a gang waits for them."""
    again: bool = False
    """Repeated request: the outcome of the first is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintForDeletion:
    """Taint an empty node with the instant after which it may be deleted."""

    node: str
    delete_after: Instant
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Untaint:
    """Take the deletion taint off a node."""

    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateInstance:
    """Delete a node's instance, and the Node. The actuator checks again that no pod that matters is on it."""

    node: str
    instance: str
    why: str
    lost: bool = False
    """The instance failed to register as a usable node, and is given up."""
    departed: bool = False
    """The instance had a Node, as far as is known, and that Node was deleted."""
    gone: bool = False
    """The instance is gone, and only the Node is deleted: a crash, or the API server, kept it from going with it."""


PoolIntent = ScaleUp | TaintForDeletion | Untaint | TerminateInstance
