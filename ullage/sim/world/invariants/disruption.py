"""Disruption invariants: our processes never violate a budget, and delete a node only if no pod that matters is on it
or about to be bound to it.
"""

from collections.abc import Collection

from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import BUDGETS
from ullage.model.draining import DRAINING_TAINT
from ullage.model.fact_event import ObjectKey
from ullage.model.provisioner import DELETION_TAINT
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.rules.workloads import selector_of
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.world.invariants.breach import RACE_SECONDS, InvariantBreach, Report, lease_name, node_name, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredLease, StoredNode, StoredPod

OVERDUE_SECONDS = 30.0
"""Seconds after its deletion time from which a pod does not keep its node."""


class DisruptionChecks:
    """Checks writes of the processes in `ours`; users and kubelets are not checked."""

    def __init__(self, mirror: ObjectMirror, server: SimulatedApiServer, report: Report, ours: Collection[str]) -> None:
        self._mirror = mirror
        self._report = report
        self._ours = frozenset(ours)
        self._budgets: dict[ObjectKey, JsonObject] = {}
        self._held_since: dict[tuple[str, str], float] = {}
        """Time since which a pod holds a Lease, by Lease and pod uid."""
        self._tainted_since: dict[str, float] = {}
        """Time since which a node is tainted for its removal."""
        mirror.pod_listeners.append(self._pod)
        mirror.node_listeners.append(self._node)
        mirror.lease_listeners.append(self._lease)
        server.listen(BUDGETS.id, self._budget)

    def _budget(self, change: StoredChange) -> None:
        meta = change.after.obj["metadata"]
        key = ObjectKey(meta["namespace"], meta["name"])
        if change.deleted:
            self._budgets.pop(key, None)
        else:
            self._budgets[key] = change.after.obj

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        """Find pods deleted without the Eviction API.

        It charges a budget before it deletes, so a deleted pod that no matching budget was charged for went around it.
        """
        before, after = step.before, step.after
        if not self._budgets or before is None or step.by not in self._ours:
            return
        told_to_go = after is None or after.leaves_by is not None
        if before.leaves_by is not None or not told_to_go or not before.ready:
            return
        for key, budget in self._budgets.items():
            charged = (budget.get("status") or {}).get("disruptedPods") or {}
            if key.namespace != before.key.namespace or before.key.name in charged:
                continue
            if selector_of(budget["spec"].get("selector")).matches(dict(before.labels)):
                what = f"{before.key} was made to go by {step.by}, and {key} was not asked"
                self._report(InvariantBreach(step.at, "a budget is never violated", what, (pod_name(before.key),)))

    def _node(self, step: ObjectChange[StoredNode]) -> None:
        name = step.fact.name
        if step.after is not None:
            if any(key in (DRAINING_TAINT, DELETION_TAINT) for key, _, _ in step.after.taints):
                self._tainted_since.setdefault(name, step.at)
            else:
                self._tainted_since.pop(name, None)
            return
        tainted = self._tainted_since.pop(name, float("-inf"))
        if step.by not in self._ours:
            return
        for pod in self._mirror.on_node.get(name, {}).values():
            overdue = pod.leaves_by is not None and step.at > pod.leaves_by + OVERDUE_SECONDS
            if not pod.stays_behind and not overdue:
                what = f"{name} was deleted by {step.by} with {pod.key} on it"
                about = (node_name(name), pod_name(pod.key))
                self._report(InvariantBreach(step.at, "a node goes only empty", what, about))
        for lease in self._mirror.leases.values():
            if lease.node == name:
                self._check_holders(step, lease, tainted)

    def _lease(self, step: ObjectChange[StoredLease]) -> None:
        before = step.before.holders if step.before is not None else {}
        after = step.after.holders if step.after is not None else {}
        name = step.fact.name
        for uid in before.keys() - after.keys():
            self._held_since.pop((name, uid), None)
        for uid in after.keys() - before.keys():
            self._held_since[name, uid] = step.at

    def _check_holders(self, step: ObjectChange[StoredNode], lease: StoredLease, tainted: float) -> None:
        """Find pods about to be bound to a deleted node: they hold a Lease on one of its GPUs and have no node yet.

        Whoever held it before the node was tainted is found by reading, whatever a watch has told.
        """
        for uid in sorted(lease.holders):
            pod, since = self._mirror.by_uid.get(uid), self._held_since.get((lease.name, uid), step.at)
            if pod is None or pod.node or pod.over or pod.leaves_by is not None:
                continue
            if step.at - since < RACE_SECONDS and since >= tainted:
                continue
            what = f"{lease.node} was deleted by {step.by} though {pod.key} had held GPU {lease.device} of it for "
            what += f"{step.at - since:.1f} s and was about to come"
            about = (node_name(lease.node), lease_name(lease.name), pod_name(pod.key))
            self._report(InvariantBreach(step.at, "a node goes only when nobody is about to come", what, about))
