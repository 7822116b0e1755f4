"""Containers of a chaos run and the GPUs they see, whoever scheduled them, and after their pod's object is gone.

Kubelets stop the containers of a pod that is gone. A kubelet that stands still does not: they run on, and use their
GPUs. Judged from the stored objects and the kubelets alone.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import msgspec

from ullage.model.device import MILLI_GPU, GpuNodeKind, Inventory
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.world.invariants.breach import InvariantBreach, Report, node_name, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredNode, StoredPod

REPORTED_WITHIN_SECONDS = 150.0
"""Seconds after which a running container is known by an agent's report, or its node gets no pods for its silence."""
SILENT_SECONDS = 120.0
"""Seconds without a report after which nothing is bound to a node's GPUs: 90, and time to notice."""
GONE_SECONDS = 60.0
"""Seconds after the end of a machine from which nothing is bound to its node."""
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"


@dataclass(slots=True)
class _Container:
    """Containers of one pod that run."""

    name: str
    node: str
    sees: frozenset[str]
    since: float


class ContainerTable:
    """Running containers by pod uid."""

    def __init__(
        self,
        mirror: ObjectMirror,
        kubelet_stopped: Callable[[str], bool],
        report: Report,
        *,
        inventory: Callable[[str], Inventory | None],
        scheduler: str,
    ) -> None:
        self._mirror = mirror
        self._kubelet_stopped = kubelet_stopped
        self._report = report
        self._inventory = inventory
        self._scheduler = scheduler
        self._running: dict[str, _Container] = {}
        self._reported: dict[str, float] = {}
        """Time of the last report of each node's agent."""
        self._gone: dict[str, float] = {}
        """Time since which the machine of a node is gone."""
        mirror.pod_listeners.append(self._pod)
        mirror.node_listeners.append(self._node)

    def users(self, node: str) -> Mapping[str, Collection[str]]:
        """Uids of the pods whose containers see each GPU or MIG instance of a node, by UUID."""
        found: dict[str, list[str]] = {}
        for uid, one in self._running.items():
            if one.node == node:
                for uuid in one.sees:
                    found.setdefault(uuid, []).append(uid)
        return found

    def agent_reported(self, change: StoredChange) -> None:
        """Note a report of an agent."""
        self._reported[change.after.obj["metadata"]["name"]] = self._mirror.clock.now()

    def machine_gone(self, node: str) -> None:
        """Note that the cloud has ended a machine."""
        self._gone[node] = self._mirror.clock.now()

    def kubelet_back(self, node: str) -> None:
        """End the containers whose pod went while the kubelet stood still."""
        for uid, one in list(self._running.items()):
            pod = self._mirror.by_uid.get(uid)
            if one.node == node and (pod is None or pod.over):
                del self._running[uid]

    def _node(self, step: ObjectChange[StoredNode]) -> None:
        """A node that is gone takes its machine with it; one whose Node a user deleted comes back without pods."""
        if step.after is None:
            for uid in [uid for uid, one in self._running.items() if one.node == step.fact.name]:
                del self._running[uid]
            self._reported.pop(step.fact.name, None)
            self._gone.pop(step.fact.name, None)

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        pod = step.after
        if pod is None or pod.over:
            known = self._running.get(step.fact.uid)
            if known is not None and not self._kubelet_stopped(known.node):
                del self._running[step.fact.uid]
            return
        if pod.node and not (step.before and step.before.node) and step.by == self._scheduler:
            self._bound(step, pod)
        if pod.phase == "Running" and pod.uid not in self._running:
            self._running[pod.uid] = _Container(str(pod.key), pod.node, self._seen_by(pod, step.stored), step.at)

    def _bound(self, step: ObjectChange[StoredPod], pod: StoredPod) -> None:
        if pod.milli in (0, MILLI_GPU):
            self._check_alone(step, pod)
        if self._sees_all(step.stored) and self._is_leased(pod.node):
            what = f"{pod.key} was bound to {pod.node}, and its containers see every GPU of it"
            self._say(step, pod, "a container sees only the GPUs it was given", what)
        silent = step.at - self._reported.get(pod.node, step.at)
        if pod.devices and silent > SILENT_SECONDS:
            what = f"{pod.key} was bound to GPUs of {pod.node}, whose agent has been silent for {silent:.0f} s"
            self._say(step, pod, "no pod where nobody reports on GPUs", what)
        if step.at - self._gone.get(pod.node, step.at) > GONE_SECONDS:
            what = f"{pod.key} was bound to {pod.node}, whose machine the cloud has ended"
            self._say(step, pod, "no pod on a machine that is gone", what)

    def _check_alone(self, step: ObjectChange[StoredPod], pod: StoredPod) -> None:
        """Find containers on the GPUs of a pod that wants them for itself."""
        for uid, one in self._running.items():
            shared = one.sees & set(pod.sees)
            if shared and uid != pod.uid and one.node == pod.node and step.at - one.since > REPORTED_WITHIN_SECONDS:
                what = f"{min(shared)} of {pod.node} was given to {pod.key}, and a container of {one.name} runs on it"
                self._say(step, pod, "no GPU is seen twice", what)

    def _is_leased(self, node: str) -> bool:
        found = self._inventory(node)
        return found is not None and found.kind is GpuNodeKind.LEASED

    def _seen_by(self, pod: StoredPod, stored: bytes) -> frozenset[str]:
        found = self._inventory(pod.node) if self._sees_all(stored) else None
        everything = () if found is None else tuple(device.uuid for device in found.devices)
        return frozenset((*pod.sees, *everything))

    @staticmethod
    def _sees_all(stored: bytes) -> bool:
        if b'"all"' not in stored:
            return False
        containers = msgspec.json.decode(stored)["spec"]["containers"]
        return any(
            one["name"] == _VISIBLE and one.get("value") == "all"
            for each in containers
            for one in each.get("env") or ()
        )

    def _say(self, step: ObjectChange[StoredPod], pod: StoredPod, rule: str, what: str) -> None:
        self._report(InvariantBreach(step.at, rule, what, (pod_name(pod.key), node_name(pod.node))))
