"""Plans and outcomes of draining as numbers."""

from collections import Counter
from collections.abc import Iterable

from ullage.control.draining.deciding import Decided
from ullage.decide.drain.turns import Going
from ullage.model.drain_outcome import DrainOutcome, NodeGone, NodeStays
from ullage.observe.drain_metrics import DrainMetrics

PLAN, EMPTY, DRAINED = "PlanDrain", "RemoveEmptyNode", "RemoveDrainedNode"


def show(metrics: DrainMetrics, decided: Decided | None, going: Iterable[Going]) -> None:
    """How all nodes stand."""
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
    """One removal that has ended."""
    metrics.took(DRAINED if outcome.action.evict else EMPTY, seconds)
    match outcome:
        case NodeGone(action=action):
            metrics.removed(action.reason.value, gpu_model)
        case NodeStays(setback=setback):
            metrics.failed(setback.value)
