"""All kubelets of a fleet in one object: the cost is per event on a node, not per node.

Kubelets admit, start, finish and stop the pods bound to their nodes, and report. What a kubelet remembers (who is
admitted, since when) is lost when it restarts and rebuilt from what the pods' status says.
"""

from collections.abc import Callable

from ullage.clock import Clock, Instant
from ullage.kube.client.api import KubeApi
from ullage.kube.read import pod_requests
from ullage.kube.timestamps import read_time
from ullage.model.fact_event import ObjectKey
from ullage.sim.controllers.controller_loop import ControllerLoop
from ullage.sim.controllers.object_cache import ObjectCache, key_of
from ullage.sim.controllers.objects import ActorNode, ActorPod
from ullage.sim.controllers.podstate import condition_of, has_ended, is_terminating
from ullage.sim.controllers.writes import perform
from ullage.sim.kubelet.admission import shortage
from ullage.sim.kubelet.kubelet_pod import AdmittedPod, next_step, reject
from ullage.sim.kubelet.status import node_ready
from ullage.sim.kubelet.timings import KubeletTimings


class KubeletFleet:
    """The kubelets of every node `owns` says yes to."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        pods: ObjectCache[ActorPod],
        nodes: ObjectCache[ActorNode],
        behaviour: KubeletTimings,
        owns: Callable[[ActorNode], bool] = lambda _: True,
    ) -> None:
        self._api = api
        self._clock = clock
        self._pods = pods
        self._nodes = nodes
        self._behaviour = behaviour
        self._owns = owns
        self._dead: set[str] = set()
        self._admitted: dict[str, dict[str, AdmittedPod]] = {}
        self._addresses = 0
        self.pod_actor: ControllerLoop[ObjectKey] = ControllerLoop("kubelet", self._sync_pod, clock, workers=64)
        self.node_actor: ControllerLoop[ObjectKey] = ControllerLoop("kubelet-node", self._sync_node, clock, workers=16)
        pods.listen(self._pod_changed)
        nodes.listen(self._node_changed)

    def fail(self, node: str) -> None:
        """Stop the kubelet of this node: no reports and no actions from now on. Its containers go on running."""
        self._dead.add(node)

    def recover(self, node: str) -> None:
        """Start the kubelet again; it finds its pods as they were."""
        self._dead.discard(node)
        self.node_actor.queue.add(ObjectKey("", node))
        for pod in self._pods.having("node", node):
            self.pod_actor.queue.add(key_of(pod))

    def is_stopped(self, node: str) -> bool:
        """True if the kubelet of this node was stopped."""
        return node in self._dead

    def is_alive(self, node: ActorNode) -> bool:
        """True if a kubelet of this fleet works on the node."""
        return node.metadata.name not in self._dead and self._owns(node)

    async def _sync_pod(self, key: ObjectKey) -> Instant | None:
        pod = self._pods.get(key)
        node = None if pod is None else self._nodes.get(ObjectKey("", pod.spec.node_name))
        if pod is None or node is None or not self.is_alive(node):
            return None
        now = self._clock.now()
        here = self._admitted.setdefault(node.metadata.name, {})
        memory = here.get(pod.metadata.uid)
        if memory is None and not has_ended(pod) and (pod.status.start_time or not is_terminating(pod)):
            memory = self._recalled(pod) if pod.status.start_time else await self._admit(pod, node, here, now)
            if memory is None:
                return None
        step = next_step(pod, memory, self._behaviour, now=now)
        await perform(self._api, step.plan.writes)
        if step.memory is not None and pod.metadata.uid in here:
            here[pod.metadata.uid] = step.memory
        return step.plan.wake_at

    async def _admit(
        self, pod: ActorPod, node: ActorNode, here: dict[str, AdmittedPod], now: Instant
    ) -> AdmittedPod | None:
        """Admit the pod, or reject it because the node has no room left."""
        self._recall_all(node.metadata.name, here)
        requests = pod_requests(pod.spec)
        holders = (each.requests for each in here.values() if not each.is_over)
        lack = shortage(requests, holders, node.status.allocatable)
        if lack is not None:
            await perform(self._api, (reject(pod, lack, now=now),))
            return None
        memory = AdmittedPod(now, requests, self._next_address())
        here[pod.metadata.uid] = memory
        return memory

    def _recall_all(self, node: str, here: dict[str, AdmittedPod]) -> None:
        """Pods admitted before a restart hold their resources before any new pod is admitted."""
        for pod in self._pods.having("node", node):
            if pod.status.start_time and not has_ended(pod) and pod.metadata.uid not in here:
                self._recalled(pod)

    def _recalled(self, pod: ActorPod) -> AdmittedPod:
        """Rebuild the record of a pod that was admitted before the kubelet restarted."""
        statuses = pod.status.container_statuses
        started = next((each.state["running"].get("startedAt") for each in statuses if "running" in each.state), None)
        memory = AdmittedPod(
            since=read_time(pod.status.start_time),
            requests=pod_requests(pod.spec),
            address=pod.status.pod_ip or self._next_address(),
            restarts=max((each.restart_count for each in statuses), default=0),
            running_since=read_time(started) if started else None,
        )
        self._admitted.setdefault(pod.spec.node_name, {})[pod.metadata.uid] = memory
        return memory

    def _next_address(self) -> str:
        self._addresses += 1
        number = self._addresses
        return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"

    async def _sync_node(self, key: ObjectKey) -> Instant | None:
        node = self._nodes.get(key)
        if node is None or not self.is_alive(node):
            return None
        ready = condition_of(node.status.conditions, "Ready")
        if ready is not None and ready.status == "True":
            return None
        now = self._clock.now()
        due = Instant(read_time(node.metadata.creation_timestamp) + self._behaviour.boot_seconds)
        if due > now:
            return due
        await perform(self._api, (node_ready(node, self._behaviour.room, now=now),))
        return None

    def _pod_changed(self, old: ActorPod | None, new: ActorPod | None) -> None:
        if new is None:
            if old is not None and old.spec.node_name:
                self._admitted.get(old.spec.node_name, {}).pop(old.metadata.uid, None)
        elif new.spec.node_name:
            self.pod_actor.queue.add(key_of(new))

    def _node_changed(self, old: ActorNode | None, new: ActorNode | None) -> None:
        if new is None:
            if old is not None:
                self._admitted.pop(old.metadata.name, None)
            return
        self.node_actor.queue.add(key_of(new))
        if old is None:
            for pod in self._pods.having("node", new.metadata.name):
                self.pod_actor.queue.add(key_of(pod))
