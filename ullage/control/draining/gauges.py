"""Metrics of drain plans and outcomes."""

from collections import Counter
from collections.abc import Iterable

from ullage.control.draining.deciding import DrainDecision
from ullage.decide.draining.parallelism import OngoingRemoval
from ullage.model.drain_outcome import DrainOutcome, NodeNotRemoved, NodeRemoved
from ullage.observe.draining_metrics import DrainMetrics

PLAN, EMPTY, DRAINED = "PlanDrain", "RemoveEmptyNode", "RemoveDrainedNode"


def show(metrics: DrainMetrics, decided: DrainDecision | None, going: Iterable[OngoingRemoval]) -> None:
    """Set the gauges: removals under way, unneeded and unremovable nodes, throttling."""
    empties = [one.empty for one in going]
    metrics.pending(empty=sum(empties), drained=len(empties) - sum(empties))
    if decided is None:
        metrics.nodes(unneeded=0, unremovable={}, throttled=False)
        return
    staying = Counter(one.why.value for one in (*decided.plan.unremovable, *decided.turns.waiting))
    metrics.nodes(
        unneeded=len(decided.plan.removable),
        unremovable=dict(sorted(staying.items())),
        throttled=bool(decided.turns.throttled),
    )


def count(metrics: DrainMetrics, outcome: DrainOutcome, seconds: float, *, gpu_model: str) -> None:
    """Count one removal that has ended."""
    metrics.took(DRAINED if outcome.action.evict else EMPTY, seconds)
    match outcome:
        case NodeRemoved(action=action):
            metrics.removed(action.reason.value, gpu_model)
        case NodeNotRemoved(setback=setback):
            metrics.failed(setback.value)
