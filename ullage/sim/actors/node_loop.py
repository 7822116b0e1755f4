"""Watches over nodes: those that fall silent are marked and tainted, and pods leave nodes they do not tolerate."""

from ullage.clock import Clock, Instant
from ullage.kube.api import KubeApi
from ullage.kube.objects.policy import Lease
from ullage.model.event import ObjectKey
from ullage.sim.actors.actor import Actor
from ullage.sim.actors.cache import Cache, key_of
from ullage.sim.actors.node_health import (
    Emptying,
    Hearing,
    is_well,
    plan_node_health,
    plan_taint_eviction,
    seconds_per_eviction,
    wants_eviction,
)
from ullage.sim.actors.shapes import ActorNode, ActorPod
from ullage.sim.actors.writes import earlier, perform

LEASE_NAMESPACE = "kube-node-lease"


ZONE = "topology.kubernetes.io/zone"


class NodeHealthLoop:
    """One key per node. A node is heard of when its lease is renewed or its kubelet reports."""

    def __init__(
        self, api: KubeApi, clock: Clock, nodes: Cache[ActorNode], pods: Cache[ActorPod], *, patience: float
    ) -> None:
        self._api = api
        self._clock = clock
        self._nodes = nodes
        self._pods = pods
        self._patience = patience
        self._heard: dict[str, Instant] = {}
        self._next_eviction: dict[str, Instant] = {}
        self.actor: Actor[ObjectKey] = Actor("node-health", self._sync, clock)
        nodes.listen(self._node_changed)

    def lease_changed(self, old: Lease | None, new: Lease | None) -> None:
        """To be told of all leases; only those of nodes matter."""
        if new is None or new.metadata.namespace != LEASE_NAMESPACE:
            return
        if old is None or old.spec.renew_time != new.spec.renew_time:
            self._heard[new.metadata.name] = self._clock.now()

    async def _sync(self, key: ObjectKey) -> Instant | None:
        node = self._nodes.get(key)
        if node is None:
            self._heard.pop(key.name, None)
            return None
        now = self._clock.now()
        hearing = Hearing(self._heard.setdefault(key.name, now), self._patience)
        emptying, turn = self._emptying(node, now)
        pods = self._pods.having("node", key.name)
        plan = plan_node_health(node, hearing, pods, emptying, now=now)
        await perform(self._api, plan.writes)
        return earlier(plan.wake_at, turn)

    def _emptying(self, node: ActorNode, now: Instant) -> tuple[Emptying, Instant | None]:
        """Nodes of a zone take turns; also when to ask again if it is not this one's."""
        if is_well(node):
            return Emptying.LATER, None
        everyone = self._nodes.all()
        if not any(map(is_well, everyone)):
            return Emptying.NEVER, None
        if not wants_eviction(node):
            return Emptying.LATER, None
        zone = node.metadata.labels.get(ZONE, "")
        pause = seconds_per_eviction([each for each in everyone if each.metadata.labels.get(ZONE, "") == zone])
        if pause is None:
            return Emptying.LATER, None
        turn = self._next_eviction.get(zone, now)
        if turn > now:
            return Emptying.LATER, turn
        self._next_eviction[zone] = Instant(now + pause)
        return Emptying.NOW, None

    def _node_changed(self, old: ActorNode | None, new: ActorNode | None) -> None:
        changed = new or old
        if changed is None:
            return
        if new is not None and old is not None and is_well(new) and not is_well(old):
            self._heard[new.metadata.name] = self._clock.now()
        self.actor.queue.add(key_of(changed))
        if old is None or new is None or is_well(old) != is_well(new):
            # What holds for the others may be different now.
            for node in self._nodes.all():
                if not is_well(node):
                    self.actor.queue.add(key_of(node))


class TaintEvictionLoop:
    """One key per pod. How long a pod has to bear a taint counts from when both were first seen together."""

    def __init__(self, api: KubeApi, clock: Clock, nodes: Cache[ActorNode], pods: Cache[ActorPod]) -> None:
        self._api = api
        self._clock = clock
        self._nodes = nodes
        self._pods = pods
        self._since: dict[str, Instant] = {}
        self.actor: Actor[ObjectKey] = Actor("taint-eviction", self._sync, clock)
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
