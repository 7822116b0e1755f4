"""Drain reporter: Events on the node, on its NodeProvisioner and on every pod that was to be evicted; logs; metrics."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import structlog

from ullage.control.provisioning.reporter import EventSink
from ullage.decide.draining.core import DrainDecision
from ullage.decide.draining.parallelism import OngoingRemoval, pool_of
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import RemoveNode
from ullage.model.outcomes import DrainOutcome, Eviction, EvictionResult, NodeNotRemoved, NodeRemoved
from ullage.model.provisioner import Provisioner
from ullage.model.removal_plan import PlanViolation, RemovalPlan
from ullage.observe.draining_metrics import DrainMetrics
from ullage.observe.events import EventMessage, EventReason, ObjectReference
from ullage.state.cluster import ClusterState

_log = structlog.get_logger("draining")

PLAN, EMPTY, DRAINED = "PlanDrain", "RemoveEmptyNode", "RemoveDrainedNode"


class DrainReporter:
    """Records draining in Events, logs and metrics. `pools` returns NodeProvisioners by name."""

    def __init__(
        self,
        events: EventSink,
        state: ClusterState,
        pools: Callable[[], Mapping[str, Provisioner]],
        metrics: DrainMetrics | None = None,
    ) -> None:
        self._events = events
        self._state = state
        self._pools = pools
        self._metrics = metrics
        self._pool_of: dict[str, str] = {}
        self._models: dict[str, str] = {}
        self._warned: set[tuple[str, int]] = set()

    def planned(self, seconds: float) -> None:
        """Report the time a plan took."""
        if self._metrics is not None:
            self._metrics.took(PLAN, seconds)

    def intended(self, action: RemoveNode) -> None:
        """Log a removal before its first write."""
        _log.info("remove", node=action.node, pods=len(action.evict), why=action.why)

    def not_begun(self, plan: RemovalPlan, violation: PlanViolation) -> None:
        """Log a removal that waits for a disruption budget."""
        _log.info("not begun", node=plan.node, why=violation.detail)

    def begun(self, plan: RemovalPlan) -> None:
        """Report that a removal has begun."""
        inventory = self._state.inventories.get(plan.node)
        self._models[plan.node] = inventory.devices[0].model if inventory is not None and inventory.devices else ""
        self._pool_of[plan.node] = pool_of(self._state.nodes.get(plan.node))
        self._record(_node(plan.node, plan.uid), EventReason.NODE_DRAINING, f"is removed: {plan.intent.why}")

    def ended(self, outcome: DrainOutcome, seconds: float) -> None:
        """Report the outcome of a removal, and the seconds it took."""
        name = outcome.intent.node
        model = self._models.pop(name, "")
        if self._metrics is not None:
            self._metrics.took(DRAINED if outcome.intent.evict else EMPTY, seconds)
        match outcome:
            case NodeRemoved():
                _log.info("removed", node=name, evicted=outcome.evicted, left_to_owner=outcome.left_to_owner)
                if self._metrics is not None:
                    self._metrics.removed(outcome.intent.reason.value, model)
            case NodeNotRemoved(failure=failure):
                _log.warning("not removed", node=name, reason=failure.value, why=outcome.detail)
                if self._metrics is not None:
                    self._metrics.failed(failure.value)
        self._record_outcome(outcome)

    def eviction(self, eviction: Eviction) -> None:
        """Report the result of one eviction."""
        if self._metrics is not None:
            self._metrics.eviction(eviction.result.value)
        about = ObjectReference("Pod", eviction.pod, eviction.uid)
        node = ObjectReference("Node", ObjectKey("", eviction.node))
        if eviction.result is EvictionResult.EVICTED:
            self._record(about, EventReason.POD_EVICTED, f"evicted: node {eviction.node} is removed", node)
        else:
            note = f"not evicted from node {eviction.node}: {eviction.result.value}: {eviction.detail}"
            self._record(about, EventReason.POD_NOT_EVICTED, note.removesuffix(": "), node)

    def provisioner(self, provisioner: Provisioner) -> None:
        """Warn of deprecated fields of a NodeProvisioner, once per generation."""
        seen = (provisioner.uid, provisioner.generation)
        if not provisioner.consolidation.deprecated or seen in self._warned:
            return
        self._warned.add(seen)
        for field in provisioner.consolidation.deprecated:
            note = f"{field} is deprecated: say spec.consolidation.maxScaleDownParallelism"
            _log.warning("a deprecated field", provisioner=provisioner.name, field=field)
            self._record(_pool(provisioner), EventReason.DEPRECATED_FIELD, note)

    def show(self, decided: DrainDecision | None, ongoing: Iterable[OngoingRemoval]) -> None:
        """Set the gauges: removals under way, unneeded and unremovable nodes, throttling."""
        if self._metrics is None:
            return
        empties = [one.empty for one in ongoing]
        self._metrics.pending(empty=sum(empties), drained=len(empties) - sum(empties))
        if decided is None:
            self._metrics.nodes(unneeded=0, unremovable={}, throttled=False)
            return
        staying = Counter(one.reason.value for one in (*decided.plan.unremovable, *decided.batch.waiting))
        self._metrics.nodes(
            unneeded=len(decided.plan.removable),
            unremovable=dict(sorted(staying.items())),
            throttled=bool(decided.batch.throttled),
        )

    def _record_outcome(self, outcome: DrainOutcome) -> None:
        name = outcome.intent.node
        about, pool = _node(name, outcome.uid), self._pools().get(self._pool_of.pop(name, ""))
        match outcome:
            case NodeRemoved(left_to_owner=True):
                reason, note = EventReason.NODE_DRAINED, "is empty and cordoned, and left to its owner"
            case NodeRemoved():
                reason, note = EventReason.NODE_REMOVED, f"removed: {outcome.intent.why}"
            case NodeNotRemoved(failure=failure, detail=detail):
                reason, note = EventReason.NODE_NOT_REMOVED, f"not removed: {failure.value}: {detail}"
        self._record(about, reason, note)
        if pool is not None:
            self._record(_pool(pool), reason, f"{name} {note}", about)

    def _record(
        self, about: ObjectReference, reason: EventReason, note: str, related: ObjectReference | None = None
    ) -> None:
        self._events.record(EventMessage(about, reason, note, related))


def _node(name: str, uid: str) -> ObjectReference:
    return ObjectReference("Node", ObjectKey("", name), uid)


def _pool(provisioner: Provisioner) -> ObjectReference:
    return ObjectReference("NodeProvisioner", ObjectKey("", provisioner.name), provisioner.uid, "gpu.scheduling/v1")
