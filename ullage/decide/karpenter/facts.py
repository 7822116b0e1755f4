"""Facts of Karpenter as last observed, by request: smart pods, NodeClaims, NodePools, nodes, Leases, Events."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.karpenter import KARPENTER, HandoverNode, KarpenterEvent, NodeClaim, NodePool, Regarding, SmartPod
from ullage.model.lease import GpuLease
from ullage.state.forking import Forkable

KarpenterFact = SmartPod | NodeClaim | NodePool | HandoverNode | GpuLease | KarpenterEvent


class KarpenterFacts(Forkable):
    """Facts of Karpenter. `apply` is the only mutator. A restart reads all of them again from the API server."""

    def __init__(self) -> None:
        self.served = True
        """False while the cluster does not serve Karpenter's kinds, or they are not all observed yet."""
        self._smart_pods: dict[ObjectKey, SmartPod] = {}
        self._node_claims: dict[str, NodeClaim] = {}
        self._node_pools: dict[str, NodePool] = {}
        self._nodes: dict[str, HandoverNode] = {}
        self._leases: dict[str, GpuLease] = {}
        self._said_of_pod: dict[str, KarpenterEvent] = {}
        self._said_of_claim: dict[str, KarpenterEvent] = {}
        self._losses: dict[str, dict[str, NodeClaim]] = {}
        """By request and name: NodeClaims that went before their smart pod named them, and are not counted yet."""

    @property
    def smart_pods(self) -> Mapping[ObjectKey, SmartPod]:
        return MappingProxyType(self._smart_pods)

    @property
    def node_claims(self) -> Mapping[str, NodeClaim]:
        return MappingProxyType(self._node_claims)

    @property
    def node_pools(self) -> Mapping[str, NodePool]:
        return MappingProxyType(self._node_pools)

    @property
    def nodes(self) -> Mapping[str, HandoverNode]:
        return MappingProxyType(self._nodes)

    def apply(self, event: FactEvent[KarpenterFact]) -> None:
        match event:
            case Added(new=new) | Updated(new=new):
                self._put(new)
            case Deleted(old=old):
                self._drop(old)
            case _:
                pass

    def _put(self, fact: KarpenterFact) -> None:
        match fact:
            case SmartPod():
                self._smart_pods[fact.key] = fact
                self.count_losses(fact.request, self._losses.get(fact.request, ()) if fact.node else (fact.node_claim,))
            case NodeClaim():
                if fact.deleting:
                    self._note_loss(fact.name)
                self._node_claims[fact.name] = fact
            case NodePool():
                self._node_pools[fact.name] = fact
            case HandoverNode():
                self._nodes[fact.name] = fact
            case GpuLease():
                self._leases[fact.name] = fact
            case KarpenterEvent() if fact.reporter == KARPENTER:
                said = self._said_of_pod if fact.regarding is Regarding.POD else self._said_of_claim
                about = fact.about_uid if fact.regarding is Regarding.POD else fact.about.name
                known = said.get(about)
                if known is None or known.at <= fact.at:
                    said[about] = fact
            case KarpenterEvent():
                pass  # kube-scheduler uses the same reason

    def _drop(self, fact: KarpenterFact) -> None:
        match fact:
            case SmartPod():
                self._smart_pods.pop(fact.key, None)
                self._said_of_pod.pop(fact.uid, None)
                self._losses.pop(fact.request, None)
            case NodeClaim():
                self._note_loss(fact.name)
                self._node_claims.pop(fact.name, None)
            case NodePool():
                self._node_pools.pop(fact.name, None)
            case HandoverNode():
                self._nodes.pop(fact.name, None)
            case GpuLease():
                self._leases.pop(fact.name, None)
            case KarpenterEvent():
                # Events are garbage-collected by age: what they said stays true until the object goes.
                if fact.regarding is Regarding.NODE_CLAIM:
                    self._said_of_claim.pop(fact.about.name, None)

    def _note_loss(self, name: str) -> None:
        """Note that a NodeClaim goes whose smart pod waits and does not name it. One that is named is missed there."""
        claim = self._node_claims.get(name)
        if claim is None or claim.deleting:
            return
        pod = self.smart_pod_of(claim.request)
        if pod is not None and not pod.node and pod.node_claim != name:
            self._losses.setdefault(claim.request, {})[name] = claim

    def losses(self, request: str) -> tuple[NodeClaim, ...]:
        """NodeClaims of a request that came and went before its smart pod named them, the oldest first."""
        return tuple(sorted(self._losses.get(request, {}).values(), key=lambda one: (one.created, one.name)))

    def count_losses(self, request: str, names: Iterable[str]) -> None:
        """Note that the attempts on the smart pod count these NodeClaims."""
        left = self._losses.get(request)
        if left is None:
            return
        for name in tuple(names):
            left.pop(name, None)
        if not left:
            del self._losses[request]

    def smart_pod_of(self, request: str) -> SmartPod | None:
        """Smart pod of a request. A request id has one name, so there is at most one."""
        return next((one for _, one in sorted(self._smart_pods.items()) if one.request == request), None)

    def claims_of(self, request: str) -> Iterator[NodeClaim]:
        """NodeClaims that carry the id, the oldest first."""
        found = (one for one in self._node_claims.values() if request and one.request == request)
        yield from sorted(found, key=lambda one: (one.created, one.name))

    def claim_of(self, request: str) -> NodeClaim | None:
        """NodeClaim that serves a request: the oldest that is not being deleted."""
        return next((one for one in self.claims_of(request) if not one.deleting), None)

    def leased(self, node: str, uid: str) -> tuple[int, ...]:
        """GPUs of a node that Leases give to a pod, sorted."""
        held = (
            one.device for one in self._leases.values() if one.node == node and any(h.uid == uid for h in one.holds)
        )
        return tuple(sorted(held))

    def said_of(self, pod: SmartPod) -> KarpenterEvent | None:
        return self._said_of_pod.get(pod.uid)

    def said_of_claim(self, name: str) -> KarpenterEvent | None:
        return self._said_of_claim.get(name)
