"""Budgets are never violated by us, and a node goes only when no pod that matters is on it."""

from collections.abc import Collection

from ullage.kube.resource import JsonObject
from ullage.kube.resources import BUDGETS
from ullage.model.event import ObjectKey
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.rules.workloads import selector_of
from ullage.sim.apiserver.store import Change
from ullage.sim.world.books import Books, Step
from ullage.sim.world.facts import NodeNow, PodNow
from ullage.sim.world.invariants.breach import Breach, Report, node_name, pod_name

OVERDUE_SECONDS = 30.0
"""A pod that should have been gone for so long is nobody's loss."""


class DisruptionChecks:
    """Judges what `ours` do; users and kubelets may do as they please."""

    def __init__(self, books: Books, server: SimulatedApiServer, report: Report, ours: Collection[str]) -> None:
        self._books = books
        self._report = report
        self._ours = frozenset(ours)
        self._budgets: dict[ObjectKey, JsonObject] = {}
        books.pod_listeners.append(self._pod)
        books.node_listeners.append(self._node)
        server.listen(BUDGETS.id, self._budget)

    def _budget(self, change: Change) -> None:
        meta = change.after.obj["metadata"]
        key = ObjectKey(meta["namespace"], meta["name"])
        if change.deleted:
            self._budgets.pop(key, None)
        else:
            self._budgets[key] = change.after.obj

    def _pod(self, step: Step[PodNow]) -> None:
        """The Eviction API charges a budget before it deletes: who was not charged for went around it."""
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
                self._report(Breach(step.at, "a budget is never violated", what, (pod_name(before.key),)))

    def _node(self, step: Step[NodeNow]) -> None:
        if step.after is not None or step.by not in self._ours:
            return
        name = step.fact.name
        for pod in self._books.on_node.get(name, {}).values():
            overdue = pod.leaves_by is not None and step.at > pod.leaves_by + OVERDUE_SECONDS
            if not pod.stays_behind and not overdue:
                what = f"{name} was deleted by {step.by} with {pod.key} on it"
                about = (node_name(name), pod_name(pod.key))
                self._report(Breach(step.at, "a node goes only empty", what, about))
