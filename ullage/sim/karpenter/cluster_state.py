"""Cluster as the simulated Karpenter observes it: pods, nodes, NodeClaims, NodePools, and what is derived from them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ullage.clock import Clock
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import NODE_CLAIMS, NODE_POOLS, NODES
from ullage.kube.read import read_node
from ullage.kube.read.karpenter import read_node_claim, read_node_pool
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.karpenter import DO_NOT_DISRUPT, INSTANCE_TYPE_LABEL, NODE_POOL_LABEL, NodeClaim, NodePool
from ullage.model.node import Node, Taint
from ullage.model.pod import Pod
from ullage.model.resources import total
from ullage.sim.karpenter.solver import PODS as POD_SLOTS
from ullage.sim.karpenter.solver import InstanceType, Room

UNSCHEDULABLE = "Unschedulable"
DAEMON_OWNERS = ("DaemonSet", "Node")
PRIORITY_WITHOUT_COST = -(1 << 25)
"""Priority at which, or below which, the eviction of a pod costs nothing: its node counts as empty."""


@dataclass(slots=True)
class NodeClaimState:
    """One NodeClaim, with the times that no object carries."""

    fact: NodeClaim
    raw: JsonObject
    last_pod_event: float | None = None
    condemned: bool = False

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Taints that stay on the node. Startup taints do not count for packing."""
        known = self.raw["spec"].get("taints") or ()
        return tuple(Taint(one["key"], one.get("value", ""), one["effect"]) for one in known)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Instance types that the NodeClaim allows by name; empty where it allows all."""
        for one in self.raw["spec"].get("requirements") or ():
            if one["key"] == INSTANCE_TYPE_LABEL and one["operator"] == "In":
                return tuple(one["values"])
        return ()


class KarpenterClusterState:
    """Observed objects. `observe` is the only mutator."""

    def __init__(self, clock: Clock, types: Sequence[InstanceType], *, pod_event_dedup: float) -> None:
        self.types = types
        self.pods: dict[ObjectKey, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.claims: dict[str, NodeClaimState] = {}
        self.pools: dict[str, NodePool] = {}
        self.node_classes: frozenset[str] = frozenset(("", "default"))
        """Node classes there are. A NodePool that names another one is not Ready, and buys nothing."""
        self.on_claim: Callable[[NodeClaimState, bool], None] = lambda _claim, _is_new: None
        self.on_node_gone: Callable[[NodeClaimState], None] = lambda _claim: None
        """Called when somebody else deletes the Node of a NodeClaim: Karpenter deletes the NodeClaim with it."""
        self.on_provisionable: Callable[[], None] = lambda: None
        self._clock = clock
        self._dedup = pod_event_dedup
        self._kept: set[str] = set()
        self._consolidate: dict[str, float | None] = {}
        self._class_of: dict[str, str] = {}

    def observe(self, event: FactEvent[Any]) -> None:
        match event:
            case Added(key=key, new=new) | Updated(key=key, new=new):
                self._put(key, new)
            case Deleted(key=key, old=old):
                self._drop(key, old)
            case _:
                pass

    def _put(self, key: ObjectKey, fact: Any) -> None:
        if isinstance(fact, Pod):
            before = self.pods.get(key)
            self.pods[key] = fact
            self._note_pod(before, fact)
            if is_provisionable(fact) and not (before is not None and is_provisionable(before)):
                self.on_provisionable()
        elif fact["kind"] == NODE_CLAIMS.kind:
            self._put_claim(key.name, fact)
        elif fact["kind"] == NODES.kind:
            self.nodes[key.name] = read_node(msgspec.convert(fact, NODES.reads_as))
            kept = (fact["metadata"].get("annotations") or {}).get(DO_NOT_DISRUPT) == "true"
            (self._kept.add if kept else self._kept.discard)(key.name)
            if fact["metadata"].get("deletionTimestamp"):
                self._abandon(key.name)
        else:
            self.pools[key.name] = read_node_pool(msgspec.convert(fact, NODE_POOLS.reads_as))
            named = fact["spec"].get("template", {}).get("spec", {}).get("nodeClassRef", {})
            self._class_of[key.name] = named.get("name", "")
            after = fact["spec"].get("disruption", {}).get("consolidateAfter", "0s")
            self._consolidate[key.name] = None if after == "Never" else float(after.removesuffix("s"))

    def _put_claim(self, name: str, raw: JsonObject) -> None:
        fact, known = read_node_claim(msgspec.convert(raw, NODE_CLAIMS.reads_as)), self.claims.get(name)
        if known is None:
            known = self.claims[name] = NodeClaimState(fact, raw)
            self.on_claim(known, True)
        else:
            known.fact, known.raw = fact, raw
            self.on_claim(known, False)

    def _drop(self, key: ObjectKey, fact: Any) -> None:
        if isinstance(fact, Pod):
            self.pods.pop(key, None)
            self._note_pod(fact, None)
        elif fact["kind"] == NODE_CLAIMS.kind:
            self.claims.pop(key.name, None)
        elif fact["kind"] == NODES.kind:
            self.nodes.pop(key.name, None)
            self._abandon(key.name)
        else:
            self.pools.pop(key.name, None)

    def _abandon(self, node: str) -> None:
        for claim in [one for one in self.claims.values() if one.fact.node == node and not one.fact.deleting]:
            self.on_node_gone(claim)

    def _note_pod(self, before: Pod | None, now: Pod | None) -> None:
        """Restart the node's consolidation delay when a pod is bound or ends, at most once per dedup interval."""
        bound = now is not None and now.node and not (before is not None and before.node)
        ended = before is not None and before.node and (now is None or now.deleting or now.phase.over)
        one = now if now is not None else before
        if one is None or not (bound or ended) or (one.owner is not None and one.owner.kind == "DaemonSet"):
            return
        claim = next((claim for claim in self.claims.values() if claim.fact.node == one.node), None)
        if claim is not None:
            last, now_ = claim.last_pod_event, self._clock.now()
            if last is None or now_ - last >= self._dedup:
                claim.last_pod_event = now_

    def provisionable(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if is_provisionable(pod)]

    def kind_of(self, claim: NodeClaimState) -> InstanceType | None:
        """Instance type of a NodeClaim: the launched one, else the cheapest that it allows; None if there is none."""
        launched = claim.fact.labels.get(INSTANCE_TYPE_LABEL)
        names = (launched,) if launched else claim.candidates
        fitting = [
            one
            for one in self.types
            if (not names or one.name in names)
            and all(one.resources.get(name, 0) >= amount for name, amount in claim.fact.requests.items())
        ]
        return min(fitting, key=lambda one: (not one.available, one.price, one.name), default=None)

    def has_class(self, claim: NodeClaimState) -> bool:
        """True if the node class of a NodeClaim is there."""
        return claim.raw["spec"].get("nodeClassRef", {}).get("name", "") in self.node_classes

    def rooms(self) -> list[Room]:
        """Nodes and upcoming NodeClaims, with the resources that their pods leave free."""
        rooms = []
        for name, claim in sorted(self.claims.items()):
            kind, node = self.kind_of(claim), self.nodes.get(claim.fact.node)
            if kind is None or claim.fact.deleting:
                continue
            here = [pod.requests for pod in self.pods.values() if claim.fact.node and pod.node == claim.fact.node]
            used = total((*here, {POD_SLOTS: 1000 * len(here)}))
            free = {key: amount - used.get(key, 0) for key, amount in kind.resources.items()}
            labels = claim.fact.labels if node is None else node.labels
            rooms.append(Room(claim.fact.node or name, labels, claim.taints, free))
        return rooms

    def counted_pools(self) -> list[NodePool]:
        """NodePools that may buy, each with its usage: not being deleted, and with a node class."""
        found = []
        for pool in self.pools.values():
            if pool.deleting or self._class_of.get(pool.name, "") not in self.node_classes:
                continue
            kinds = [self.kind_of(one) for one in self.claims.values() if one.fact.node_pool == pool.name]
            mine = [one for one in kinds if one is not None]
            usage = total((*(one.resources for one in mine), {"nodes": 1000 * len(mine)}))
            found.append(msgspec.structs.replace(pool, usage=usage))
        return found

    def is_empty(self, claim: NodeClaimState) -> bool:
        """True if the node has been without pods for as long as its NodePool says. Nodes without a NodePool stay."""
        fact = claim.fact
        after = self._consolidate.get(fact.labels.get(NODE_POOL_LABEL, ""))
        if after is None or not fact.holds("Initialized") or fact.node in self._kept:
            return False
        since = max(fact.condition("Initialized").since, claim.last_pod_event or 0.0)
        return self._clock.now() - since >= after and not any(self._reschedulable(fact.node))

    def _reschedulable(self, node: str) -> Iterable[Pod]:
        for pod in self.pods.values():
            daemon = pod.owner is not None and pod.owner.kind in DAEMON_OWNERS
            costs = not daemon and pod.priority > PRIORITY_WITHOUT_COST
            if pod.node == node and costs and not pod.phase.over and not pod.deleting:
                yield pod


def is_provisionable(pod: Pod) -> bool:
    """True if Karpenter would provision for the pod. As in Karpenter, phase and deletion are ignored."""
    daemon = pod.owner is not None and pod.owner.kind in DAEMON_OWNERS
    return pod.unplaced == UNSCHEDULABLE and not pod.node and not pod.nominated and not daemon
