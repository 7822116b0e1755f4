"""Karpenter invariants: we delete no NodeClaim and no Node of Karpenter, and a rival gets no node under hand-over."""

from collections.abc import Sequence

from ullage.kube.client.resources import NODE_CLAIMS
from ullage.model.karpenter import HANDOVER, NODE_POOL_LABEL, REQUEST_LABEL, is_smart_pod
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.world.invariants.breach import InvariantBreach, Report, node_name, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredNode, StoredPod

KUBE_SCHEDULER = "kube-scheduler"


class KarpenterChecks:
    """Checks writes to NodeClaims and Nodes of Karpenter, and binds of kube-scheduler."""

    def __init__(self, mirror: ObjectMirror, server: SimulatedApiServer, report: Report, ours: Sequence[str]) -> None:
        self._mirror = mirror
        self._server = server
        self._report = report
        self._ours = ours
        self._going: set[str] = set()
        self._opened: set[str] = set()
        """Nodes whose taint of the hand-over was removed by somebody else than us."""
        server.listen(NODE_CLAIMS.id, self._node_claim)
        mirror.node_listeners.append(self._node)
        mirror.pod_listeners.append(self._pod)

    def _node_claim(self, change: StoredChange) -> None:
        meta = change.after.obj["metadata"]
        if meta["uid"] in self._going or not (change.deleted or meta.get("deletionTimestamp")):
            return
        self._going.add(meta["uid"])
        if self._server.caller in self._ours:
            said = f"NodeClaim {meta['name']} was deleted by our {self._server.caller}"
            self._say("NodeClaims and Nodes of Karpenter are never deleted by us", said)

    def _node(self, step: ObjectChange[StoredNode]) -> None:
        name, closed = step.fact.name, step.after is not None and _is_closed(step.after)
        if closed or step.after is None:
            self._opened.discard(name)
        elif step.before is not None and _is_closed(step.before) and step.by not in self._ours:
            self._opened.add(name)
        if step.after is None and step.by in self._ours and step.fact.labels.get(NODE_POOL_LABEL):
            said = f"Node {step.fact.name} was deleted by our {step.by}"
            self._say("NodeClaims and Nodes of Karpenter are never deleted by us", said, node_name(step.fact.name))

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        """A pod of kube-scheduler that was just bound: smart pods may be, rivals may not while a hand-over lasts."""
        pod, before = step.after, step.before
        if pod is None or not pod.node or (before is not None and before.node) or step.by != KUBE_SCHEDULER:
            return
        node = self._mirror.nodes.get(pod.node)
        if node is None or is_smart_pod(pod.labels) or not node.labels.get(REQUEST_LABEL):
            return
        request = node.labels[REQUEST_LABEL]
        waits = any(is_smart_pod(one.labels) and one.labels.get(REQUEST_LABEL) == request for one in self._smart_pods())
        if _is_closed(node) or (waits and node.name not in self._opened):
            said = f"{pod.key} was bound to {pod.node}, which was bought for request {request} and not handed over yet"
            self._say("a rival gets no node under hand-over", said, pod_name(pod.key), node_name(pod.node))

    def _smart_pods(self) -> list[StoredPod]:
        return [one for one in self._mirror.pods.values() if not one.over]

    def _say(self, rule: str, said: str, *about: str) -> None:
        self._report(InvariantBreach(self._mirror.clock.now(), rule, said, about))


def _is_closed(node: StoredNode) -> bool:
    return any(key == HANDOVER for key, _, _ in node.taints)
