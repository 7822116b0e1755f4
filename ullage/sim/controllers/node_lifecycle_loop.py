"""Node lifecycle: silent nodes are marked and tainted, and pods that do not tolerate the taints are evicted."""

from ullage.clock import Clock, Instant
from ullage.kube.client.api import KubeApi
from ullage.kube.objects.policy import Lease
from ullage.model.fact_event import ObjectKey
from ullage.sim.controllers.controller_loop import ControllerLoop
from ullage.sim.controllers.node_health import (
    NodeLastSeen,
    TaintEviction,
    is_well,
    plan_node_health,
    plan_taint_eviction,
    seconds_per_eviction,
    wants_eviction,
)
from ullage.sim.controllers.object_cache import ObjectCache, key_of
from ullage.sim.controllers.objects import ActorNode, ActorPod
from ullage.sim.controllers.writes import earlier, perform

LEASE_NAMESPACE = "kube-node-lease"


ZONE = "topology.kubernetes.io/zone"


class NodeHealthLoop:
    """One key per node. A renewed Lease or a kubelet's report is a sign of life."""

    def __init__(
        self, api: KubeApi, clock: Clock, nodes: ObjectCache[ActorNode], pods: ObjectCache[ActorPod], *, patience: float
    ) -> None:
        self._api = api
        self._clock = clock
        self._nodes = nodes
        self._pods = pods
        self._patience = patience
        self._seen: dict[str, Instant] = {}
        self._next_eviction: dict[str, Instant] = {}
        self.actor: ControllerLoop[ObjectKey] = ControllerLoop("node-health", self._sync, clock)
        nodes.listen(self._node_changed)

    def lease_changed(self, old: Lease | None, new: Lease | None) -> None:
        """Called for every Lease; only those of nodes matter."""
        if new is None or new.metadata.namespace != LEASE_NAMESPACE:
            return
        if old is None or old.spec.renew_time != new.spec.renew_time:
            self._seen[new.metadata.name] = self._clock.now()

    async def _sync(self, key: ObjectKey) -> Instant | None:
        node = self._nodes.get(key)
        if node is None:
            self._seen.pop(key.name, None)
            return None
        now = self._clock.now()
        last_seen = NodeLastSeen(self._seen.setdefault(key.name, now), self._patience)
        emptying, turn = self._emptying(node, now)
        pods = self._pods.having("node", key.name)
        plan = plan_node_health(node, last_seen, pods, emptying, now=now)
        await perform(self._api, plan.writes)
        return earlier(plan.wake_at, turn)

    def _emptying(self, node: ActorNode, now: Instant) -> tuple[TaintEviction, Instant | None]:
        """Nodes of a zone take turns. Also the instant at which to ask again if it is not this node's turn."""
        if is_well(node):
            return TaintEviction.LATER, None
        everyone = self._nodes.all()
        if not any(map(is_well, everyone)):
            return TaintEviction.NEVER, None
        if not wants_eviction(node):
            return TaintEviction.LATER, None
        zone = node.metadata.labels.get(ZONE, "")
        pause = seconds_per_eviction([each for each in everyone if each.metadata.labels.get(ZONE, "") == zone])
        if pause is None:
            return TaintEviction.LATER, None
        turn = self._next_eviction.get(zone, now)
        if turn > now:
            return TaintEviction.LATER, turn
        self._next_eviction[zone] = Instant(now + pause)
        return TaintEviction.NOW, None

    def _node_changed(self, old: ActorNode | None, new: ActorNode | None) -> None:
        changed = new or old
        if changed is None:
            return
        if new is not None and old is not None and is_well(new) and not is_well(old):
            self._seen[new.metadata.name] = self._clock.now()
        self.actor.queue.add(key_of(changed))
        if old is None or new is None or is_well(old) != is_well(new):
            # Evictions from the zone's other nodes may be paced differently now.
            for node in self._nodes.all():
                if not is_well(node):
                    self.actor.queue.add(key_of(node))


class TaintEvictionLoop:
    """One key per pod. Toleration seconds count from when pod and taint were first observed together."""

    def __init__(self, api: KubeApi, clock: Clock, nodes: ObjectCache[ActorNode], pods: ObjectCache[ActorPod]) -> None:
        self._api = api
        self._clock = clock
        self._nodes = nodes
        self._pods = pods
        self._since: dict[str, Instant] = {}
        self.actor: ControllerLoop[ObjectKey] = ControllerLoop("taint-eviction", self._sync, clock)
        nodes.listen(self._node_changed)
        pods.listen(self._pod_changed)

    async def _sync(self, key: ObjectKey) -> Instant | None:
        pod = self._pods.get(key)
        node = None if pod is None else self._nodes.get(ObjectKey("", pod.spec.node_name))
        if pod is None or node is None or not _has_acute_taint(node):
            if pod is not None:
                self._since.pop(pod.metadata.uid, None)
            return None
        now = self._clock.now()
        since = self._since.setdefault(pod.metadata.uid, now)
        plan = plan_taint_eviction(pod, node.spec.taints, since, now=now)
        await perform(self._api, plan.writes)
        return plan.wake_at

    def _node_changed(self, old: ActorNode | None, new: ActorNode | None) -> None:
        if new is None or (old is not None and old.spec.taints == new.spec.taints):
            return
        if _has_acute_taint(new) or (old is not None and _has_acute_taint(old)):
            for pod in self._pods.having("node", new.metadata.name):
                self.actor.queue.add(key_of(pod))

    def _pod_changed(self, old: ActorPod | None, new: ActorPod | None) -> None:
        if new is None:
            if old is not None:
                self._since.pop(old.metadata.uid, None)
            return
        node = self._nodes.get(ObjectKey("", new.spec.node_name)) if new.spec.node_name else None
        moved = old is None or old.spec.node_name != new.spec.node_name or old.spec.tolerations != new.spec.tolerations
        if moved and node is not None and _has_acute_taint(node):
            self.actor.queue.add(key_of(new))


def _has_acute_taint(node: ActorNode) -> bool:
    return any(taint.effect == "NoExecute" for taint in node.spec.taints)
