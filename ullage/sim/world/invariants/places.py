"""No pod is bound where the rules about nodes refuse it, on a GPU that is broken, or where its kubelet has no room."""

from typing import Any

from ullage.decide.fit.rules.node import NODE_RULES
from ullage.kube.encoding import decode_object
from ullage.kube.read import read_node, read_pod
from ullage.kube.resources import GPU_NODE_STATUSES, NODES, PODS
from ullage.model.node import Node
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.store import Change
from ullage.sim.world.books import Books, Step
from ullage.sim.world.facts import NodeNow, PodNow
from ullage.sim.world.invariants.breach import RACE_SECONDS, Breach, Report, node_name, pod_name

_REJECTED = ("OutOf", "NodeAffinity", "UnexpectedAdmissionError")
"""How kubelets begin to say that they cannot take a pod."""


class PlaceChecks:
    """Judges binds made by `scheduler`; who else binds, answers for it himself."""

    def __init__(self, books: Books, server: SimulatedApiServer, report: Report, scheduler: str) -> None:
        self._books = books
        self._report = report
        self._scheduler = scheduler
        self._changed: dict[str, float] = {}
        self._stored: dict[str, bytes] = {}
        self._nodes: dict[str, Node] = {}
        self._broken: dict[tuple[str, int], float] = {}
        """GPUs that are not well, and since when."""
        books.node_listeners.append(self._node)
        books.pod_listeners.append(self._pod)
        server.listen(GPU_NODE_STATUSES.id, self._inventory)

    def _node(self, step: Step[NodeNow]) -> None:
        name = step.fact.name
        self._nodes.pop(name, None)
        if step.after is None:
            self._changed.pop(name, None)
            self._stored.pop(name, None)
            return
        self._changed[name] = step.at
        self._stored[name] = step.stored

    def _inventory(self, change: Change) -> None:
        node = change.after.obj["metadata"]["name"]
        devices: list[dict[str, Any]] = (change.after.obj.get("status") or {}).get("devices") or []
        for device in devices:
            gpu = (node, device["id"])
            if device.get("health", "Healthy") == "Healthy" or change.deleted:
                self._broken.pop(gpu, None)
            else:
                self._broken.setdefault(gpu, self._books.clock.now())

    def _pod(self, step: Step[PodNow]) -> None:
        pod = step.after
        if pod is None:
            return
        if pod.phase == "Failed" and pod.reason.startswith(_REJECTED) and not (step.before and step.before.over):
            self._say(step, pod, "no node is promised twice", f"the kubelet of {pod.node} rejected it: {pod.reason}")
        if pod.node and not (step.before and step.before.node) and step.by == self._scheduler:
            self._bound(step, pod)

    def _bound(self, step: Step[PodNow], pod: PodNow) -> None:
        for device in pod.devices:
            since = self._broken.get((pod.node, device))
            if since is not None and step.at - since > RACE_SECONDS:
                self._say(step, pod, "no pod on a broken GPU", f"it was bound to GPU {device} of {pod.node}")
        if step.at - self._changed.get(pod.node, step.at) <= RACE_SECONDS:
            return
        node = self._facts(pod.node)
        shape = read_pod(decode_object(PODS, step.stored, str(pod.key))).shape
        for rule in NODE_RULES:
            verdict = None if node is None else rule(shape, node)
            if verdict is not None:
                why = f"it was bound to {pod.node}, which refuses it: {verdict.reason}: {verdict.detail}"
                self._say(step, pod, "no pod where the rules refuse it", why)

    def _facts(self, name: str) -> Node | None:
        if name not in self._nodes and name in self._stored:
            self._nodes[name] = read_node(decode_object(NODES, self._stored[name], name))
        return self._nodes.get(name)

    def _say(self, step: Step[PodNow], pod: PodNow, rule: str, what: str) -> None:
        self._report(Breach(step.at, rule, f"{pod.key}: {what}", (pod_name(pod.key), node_name(pod.node))))
