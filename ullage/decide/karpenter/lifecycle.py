"""Derive the state of a smart pod and the events of a NodeClaim from observed objects. Stateless."""

from collections.abc import Iterator
from dataclasses import dataclass

from ullage.model.device import GpuNodeKind, Inventory
from ullage.model.karpenter import (
    UNCLAIMED,
    HandoverNode,
    NodeClaim,
    NodeClaimEvent,
    NodeClaimEventType,
    SmartPod,
    WaitingPod,
)
from ullage.model.lifecycles import SmartPodState as S
from ullage.model.units import Instant

LAUNCHED, REGISTERED, READY = "Launched", "Registered", "Ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """Observed facts of one request at one instant."""

    smart_pod: SmartPod | None
    claim: NodeClaim | None
    node: HandoverNode | None
    """Node the smart pod is bound to, or the node closed for the request."""
    inventory: Inventory | None = None
    fits: bool = False
    """True if the scheduler's rules would place the waiting pods on the node without the smart pod."""
    leased: bool = False
    """True if every waiting pod has its GPUs leased, or the node's device plugin chooses them."""
    waiting: tuple[WaitingPod, ...] = ()
    """Pods of the request that exist and have no node."""


def derive(view: RequestView) -> S:
    """Derive the state from the objects. A bound smart pod is a valid step from any earlier state."""
    pod, claim, node = view.smart_pod, view.claim, view.node
    if pod is None:
        return S.HANDED_OVER if _closed(node) else S.REQUESTED
    if not pod.node:
        return _before_bind(claim)
    if node is None or not node.ready:
        return S.REGISTERED
    if _closed(node) and view.leased:
        return S.RESERVED
    if view.fits:
        return S.INVENTORY_READY
    return S.INITIALIZED if node.initialized or node.gpus else S.REGISTERED


def _before_bind(claim: NodeClaim | None) -> S:
    if claim is None:
        return S.PENDING
    if claim.holds(REGISTERED):
        return S.REGISTERED
    return S.LAUNCHED if claim.holds(LAUNCHED) else S.NOMINATED


def _closed(node: HandoverNode | None) -> bool:
    return node is not None and node.handover is not None and node.closed_for not in (None, UNCLAIMED)


def chooses_devices(inventory: Inventory | None) -> bool:
    """True if the node's device plugin chooses the GPUs (a counted node): then there is nothing to lease."""
    return inventory is not None and inventory.kind is GpuNodeKind.COUNTED


def node_claim_events(old: NodeClaim | None, new: NodeClaim | None, *, now: Instant) -> Iterator[NodeClaimEvent]:
    """Events between two observations of one NodeClaim; `new` is None once it is deleted."""
    if new is None:
        if old is not None and not old.deleting and not old.holds(READY):
            yield NodeClaimEvent(type=NodeClaimEventType.FAILED, node_claim=old.name, node=old.node, timestamp=now)
        return
    if old is None:
        yield NodeClaimEvent(type=NodeClaimEventType.CREATED, node_claim=new.name, node=new.node, timestamp=new.created)
    for condition, type_ in (
        (LAUNCHED, NodeClaimEventType.LAUNCHING),
        (REGISTERED, NodeClaimEventType.REGISTERING),
        (READY, NodeClaimEventType.READY),
    ):
        if new.holds(condition) and not (old is not None and old.holds(condition)):
            since = new.condition(condition).since or now
            yield NodeClaimEvent(type=type_, node_claim=new.name, node=new.node, timestamp=since)
    begins_to_go = new.deleting and not (old is not None and old.deleting)
    if begins_to_go and not new.holds(READY):
        yield NodeClaimEvent(type=NodeClaimEventType.FAILED, node_claim=new.name, node=new.node, timestamp=now)
