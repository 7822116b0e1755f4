"""Placement invariants: no bind against the node's rules, to a broken GPU, or to a node whose kubelet has no room."""

from typing import Any

from ullage.decide.placement.filters.node import NODE_RULES
from ullage.decide.placement.filters.pod_query import PodQuery
from ullage.kube.client.json_codec import decode_object
from ullage.kube.client.resources import GPU_NODE_STATUSES, NODES, PODS
from ullage.kube.read import read_node, read_pod
from ullage.model.node import Node
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.world.invariants.breach import RACE_SECONDS, InvariantBreach, Report, node_name, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredNode, StoredPod
from ullage.state.snapshot import ClusterSnapshot

_REJECTED = ("OutOf", "NodeAffinity", "UnexpectedAdmissionError")
"""Prefixes of the reasons with which a kubelet rejects a pod."""


class PlacementChecks:
    """Checks binds made by `scheduler`; binds by others are not checked."""

    def __init__(self, mirror: ObjectMirror, server: SimulatedApiServer, report: Report, scheduler: str) -> None:
        self._mirror = mirror
        self._report = report
        self._scheduler = scheduler
        self.race_seconds = RACE_SECONDS
        """Seconds for which the scheduler may not yet have observed a change. Longer where faults keep it behind."""
        self._changed: dict[str, float] = {}
        self._stored: dict[str, bytes] = {}
        self._nodes: dict[str, Node] = {}
        self._broken: dict[tuple[str, int], float] = {}
        """Time since which each GPU is unhealthy, by node and GPU."""
        mirror.node_listeners.append(self._node)
        mirror.pod_listeners.append(self._pod)
        server.listen(GPU_NODE_STATUSES.id, self._inventory)

    def _node(self, step: ObjectChange[StoredNode]) -> None:
        name = step.fact.name
        self._nodes.pop(name, None)
        if step.after is None:
            self._changed.pop(name, None)
            self._stored.pop(name, None)
            return
        self._changed[name] = step.at
        self._stored[name] = step.stored

    def _inventory(self, change: StoredChange) -> None:
        node = change.after.obj["metadata"]["name"]
        devices: list[dict[str, Any]] = (change.after.obj.get("status") or {}).get("devices") or []
        for device in devices:
            gpu = (node, device["id"])
            if device.get("health", "Healthy") == "Healthy" or change.deleted:
                self._broken.pop(gpu, None)
            else:
                self._broken.setdefault(gpu, self._mirror.clock.now())

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        pod = step.after
        if pod is None:
            return
        if pod.phase == "Failed" and pod.reason.startswith(_REJECTED) and not (step.before and step.before.over):
            self._say(step, pod, "no node is promised twice", f"the kubelet of {pod.node} rejected it: {pod.reason}")
        if pod.node and not (step.before and step.before.node) and step.by == self._scheduler:
            self._bound(step, pod)

    def _bound(self, step: ObjectChange[StoredPod], pod: StoredPod) -> None:
        for device in pod.devices:
            since = self._broken.get((pod.node, device))
            if since is not None and step.at - since > self.race_seconds:
                self._say(step, pod, "no pod on a broken GPU", f"it was bound to GPU {device} of {pod.node}")
        if step.at - self._changed.get(pod.node, step.at) <= self.race_seconds:
            return
        node = self._facts(pod.node)
        query = PodQuery(read_pod(decode_object(PODS, step.stored, str(pod.key))), ClusterSnapshot())
        for rule in NODE_RULES:
            detail = None if node is None else rule.explain(query, node)
            if detail is not None:
                why = f"it was bound to {pod.node}, which refuses it: {rule.reason}: {detail}"
                self._say(step, pod, "no pod where the rules refuse it", why)

    def _facts(self, name: str) -> Node | None:
        if name not in self._nodes and name in self._stored:
            self._nodes[name] = read_node(decode_object(NODES, self._stored[name], name))
        return self._nodes.get(name)

    def _say(self, step: ObjectChange[StoredPod], pod: StoredPod, rule: str, what: str) -> None:
        self._report(InvariantBreach(step.at, rule, f"{pod.key}: {what}", (pod_name(pod.key), node_name(pod.node))))
