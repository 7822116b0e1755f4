"""Pods of a node, sorted by their drainability."""

from dataclasses import dataclass, field

from ullage.decide.draining.rules import Drainability, DrainabilityCache, DrainBlocked
from ullage.decide.provisioning.pool_nodes import is_left_behind
from ullage.model.draining import UnremovableNode, UnremovableReason
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.state.dra_allocations import holder_key
from ullage.state.snapshot import ClusterSnapshot


@dataclass(slots=True)
class PodsToMove:
    """Pods of one node: to move, to wait for, and the first that blocks its removal."""

    node: str
    moving: list[Pod] = field(default_factory=list)
    """By name."""
    waited_for: list[ObjectKey] = field(default_factory=list)
    blocked: UnremovableNode | None = None
    """First pod by name that must stay, or that is assumed to this node and not bound yet. A pod whose budget is spent
    counts only if no other pod blocks: that passes."""


def load_of(node: str, placements: ClusterSnapshot, rulings: DrainabilityCache) -> PodsToMove:
    """Apply the drain rules to every pod on a node."""
    load, heard = PodsToMove(node), placements.state.pods
    holder = holder_key(node)
    here = placements.pods_on(node)
    for key in sorted(here):
        pod = here[key]
        known = heard.get(key)
        if known is None or known.node != node:
            if key == holder:
                continue  # devices allocated by DRA: the pods that use them are on this node, too
            if is_left_behind(pod):
                continue  # its pod is gone: the GPU is freed, or in quarantine, and goes with the node
            load.blocked = UnremovableNode(
                node=node, reason=UnremovableReason.DESTINATION, pod=_named(known), detail="it is about to come"
            )
            return load
        answer = rulings.of(pod)
        if answer is Drainability.EVICT:
            load.moving.append(pod)
        elif isinstance(answer, DrainBlocked):
            found = UnremovableNode(node=node, reason=answer.reason, pod=key, detail=answer.detail)
            if answer.reason is not UnremovableReason.NOT_ENOUGH_PDB:
                load.blocked = found
                return load
            load.blocked = load.blocked or found
        elif answer is Drainability.WAIT_FOR_COMPLETION:
            load.waited_for.append(key)
    return load


def _named(pod: Pod | None) -> ObjectKey | None:
    return None if pod is None else pod.key
