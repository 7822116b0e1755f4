"""Invariant of draining: nobody is evicted into room that pods need which were evicted before and are not back yet.

A controller that lags makes no new pods, and its status counts those that are gone. What is missing is known all the
same: fewer pods are there than their owner wants. It does not matter which process evicted them. Counted are GPUs, and
room generously: on every node that stays, whoever is leaving it counts as gone.
"""

from collections import deque
from collections.abc import Collection

from ullage.kube.client.resources import REPLICA_SETS, STATEFUL_SETS
from ullage.model.device import MILLI_GPU
from ullage.model.draining import DRAINING_TAINT
from ullage.model.provisioner import DELETION_TAINT
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.world.invariants.breach import InvariantBreach, Report, node_name, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredNode, StoredPod

TAKEN_SECONDS = 180.0
"""Seconds for which room that others took or lost is no breach: an eviction is asked for again for two minutes."""


class ReturningChecks:
    """Checks evictions by the controllers in `ours`."""

    def __init__(self, mirror: ObjectMirror, server: SimulatedApiServer, report: Report, ours: Collection[str]) -> None:
        self._mirror = mirror
        self._server = server
        self._report = report
        self._ours = frozenset(ours)
        self._wanted: dict[str, int] = {}
        """Replicas by owner."""
        self._live: dict[str, dict[str, None]] = {}
        """Uids of the pods of each owner that are neither over nor leaving."""
        self._evicted: dict[str, list[int]] = {}
        """By owner: GPUs, in thousandths, of evicted pods that no new pod stands for."""
        self._taken: deque[tuple[float, int]] = deque()
        """GPUs, in thousandths, that others took or lost, and when."""
        server.listen(REPLICA_SETS.id, self._workload)
        server.listen(STATEFUL_SETS.id, self._workload)
        mirror.pod_listeners.append(self._pod)
        mirror.node_listeners.append(self._node)

    def _workload(self, change: StoredChange) -> None:
        uid = change.after.obj["metadata"]["uid"]
        if change.deleted:
            self._wanted.pop(uid, None)
            self._evicted.pop(uid, None)
        else:
            self._wanted[uid] = int(change.after.obj["spec"].get("replicas", 1))

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        before, after, owner = step.before, step.after, step.fact.owner
        lived, lives = _is_live(before), _is_live(after)
        live = self._live.setdefault(owner, {}) if owner else {}
        if lives:
            live[step.fact.uid] = None
        else:
            live.pop(step.fact.uid, None)
        if owner and not live:
            del self._live[owner]
        if before is None and lives and self._evicted.get(owner):
            self._evicted[owner].pop(0)  # its replacement
        if after is not None and after.holds and not (before is not None and before.holds):
            self._taken.append((step.at, after.gpu_milli))
        evicted = lived and not lives and (after is None or after.leaves_by is not None)
        if evicted and before is not None and before.holds and before.gpu_milli and step.by in self._ours:
            self._evicted.setdefault(owner, []).append(before.gpu_milli)
            self._check(step.at, before)

    def _node(self, step: ObjectChange[StoredNode]) -> None:
        lost = step.before is not None and _stays(step.before) and not (step.after is not None and _stays(step.after))
        if lost and step.by not in self._ours:
            self._taken.append((step.at, step.fact.gpus * MILLI_GPU))

    def _check(self, now: float, pod: StoredPod) -> None:
        while self._taken and self._taken[0][0] < now - TAKEN_SECONDS:
            self._taken.popleft()
        missing = sum(sum(gone[: self._missing(owner)]) for owner, gone in self._evicted.items())
        room = sum(self._room(node) for node in self._mirror.nodes.values() if _stays(node))
        if missing > room + sum(milli for _, milli in self._taken):
            what = f"{pod.key} was evicted from {pod.node}; {missing / MILLI_GPU:g} GPUs are to be used again by who "
            what += f"was evicted, and {room / MILLI_GPU:g} are free on nodes that stay"
            about = (pod_name(pod.key), node_name(pod.node))
            self._report(InvariantBreach(now, "whoever was evicted has a place to come back to", what, about))

    def _missing(self, owner: str) -> int:
        return max(self._wanted.get(owner, 0) - len(self._live.get(owner, ())), 0)

    def _room(self, node: StoredNode) -> int:
        pods = self._mirror.on_node.get(node.name, {}).values()
        return max(node.gpus * MILLI_GPU - sum(pod.gpu_milli for pod in pods if pod.leaves_by is None), 0)


def _is_live(pod: StoredPod | None) -> bool:
    return pod is not None and not pod.over and pod.leaves_by is None


def _stays(node: StoredNode) -> bool:
    return not any(key in (DRAINING_TAINT, DELETION_TAINT) for key, _, _ in node.taints)
