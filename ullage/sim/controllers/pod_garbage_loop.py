"""Removes pods that no kubelet will finish. Woken by pods, and by nodes that are added or deleted."""

from ullage.clock import Clock, Instant
from ullage.errors import NotFound
from ullage.kube.client.api import KubeApi
from ullage.model.fact_event import ObjectKey
from ullage.sim.controllers.controller_loop import ControllerLoop
from ullage.sim.controllers.object_cache import ObjectCache, key_of
from ullage.sim.controllers.objects import ActorNode, ActorPod
from ullage.sim.controllers.pod_garbage import collect_pod, over_threshold
from ullage.sim.controllers.podstate import has_ended, is_terminating
from ullage.sim.controllers.writes import perform


class PodGarbageLoop:
    """One key per pod, and one (None) for the number of ended pods that are kept."""

    def __init__(
        self, api: KubeApi, clock: Clock, pods: ObjectCache[ActorPod], nodes: ObjectCache[ActorNode], *, kept: int
    ) -> None:
        self._api = api
        self._clock = clock
        self._pods = pods
        self._nodes = nodes
        self._kept = kept
        self._ended = 0
        self._missing: dict[str, Instant] = {}
        self.actor: ControllerLoop[ObjectKey | None] = ControllerLoop("pod-garbage", self._sync, clock)
        pods.listen(self._pod_changed)
        nodes.listen(self._node_changed)

    async def _sync(self, key: ObjectKey | None) -> Instant | None:
        now = self._clock.now()
        if key is None:
            await perform(self._api, over_threshold(self._pods.all(), self._kept, now=now))
            return None
        pod = self._pods.get(key)
        if pod is None:
            return None
        name = pod.spec.node_name
        node = self._nodes.get(ObjectKey("", name))
        missing_since = self._missing.setdefault(name, now) if name and node is None else None
        plan = collect_pod(pod, node, missing_since, now=now)
        if plan.writes and missing_since is not None and await self._is_there(name):
            return None
        await perform(self._api, plan.writes)
        return plan.wake_at

    async def _is_there(self, name: str) -> bool:
        """Read the node from the server before a pod is given up: the cache may be behind."""
        try:
            await self._api.get(self._nodes.resource, name)
        except NotFound:
            return False
        return True

    def _pod_changed(self, old: ActorPod | None, new: ActorPod | None) -> None:
        was, is_now = old is not None and has_ended(old), new is not None and has_ended(new)
        self._ended += is_now - was
        if is_now and not was and self._ended > self._kept:
            self.actor.queue.add(None)
        if new is None:
            return
        unfinished = is_terminating(new) or (
            new.spec.node_name and self._nodes.get(ObjectKey("", new.spec.node_name)) is None
        )
        if unfinished:
            self.actor.queue.add(key_of(new))

    def _node_changed(self, old: ActorNode | None, new: ActorNode | None) -> None:
        if new is not None:
            self._missing.pop(new.metadata.name, None)
        if old is not None and (new is None or old.spec.taints != new.spec.taints):
            for pod in self._pods.having("node", old.metadata.name):
                self.actor.queue.add(key_of(pod))
