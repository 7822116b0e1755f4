"""Metrics of plans and outcomes."""

from ullage.decide.provisioning.planner import FleetPlan, PoolPlan
from ullage.model.outcomes import LaunchFailed, NodesLaunched, PoolActionDone, PoolActionFailed, PoolOutcome
from ullage.model.provisioner import CloudFailure
from ullage.observe.provisioning_metrics import ProvisioningMetrics

DONE = "Done"


def show(metrics: ProvisioningMetrics, plan: FleetPlan, *, now: float) -> None:
    """Set the gauges of all pools."""
    metrics.forget_others(plan.pools)
    metrics.unmet(len(plan.demand.unmet), {name: plan.unmet_by(name) for name in plan.pools})
    for name, pool in plan.pools.items():
        back_off = pool.provisioner.back_off
        metrics.pool(
            name,
            _states(pool),
            target=pool.evaluation.target,
            utilisation=pool.evaluation.utilization_percent or 0,
            backed_off=back_off is not None and back_off.until > now,
        )


def count(metrics: ProvisioningMetrics, outcome: PoolOutcome) -> None:
    """Count one intent that has ended."""
    kind = type(outcome.action).__name__
    match outcome:
        case PoolActionDone():
            metrics.action(kind, DONE)
        case PoolActionFailed(setback=setback):
            metrics.action(kind, setback.value)
        case NodesLaunched(action=action, instances=instances, failure=failure):
            metrics.action(kind, DONE if failure is None else failure.value)
            metrics.bought(action.provisioner, len(instances))
        case LaunchFailed(failure=failure):
            metrics.action(kind, (failure or CloudFailure.UNKNOWN).value)


def _states(pool: PoolPlan) -> dict[str, int]:
    found = {"ready": 0, "coming": 0, "tainted": 0, "lost": 0}
    for node in pool.nodes:
        state = (
            "lost"
            if node.failed_to_register
            else "tainted"
            if node.marked_for_deletion
            else "coming"
            if node.upcoming
            else "ready"
        )
        found[state] += 1
    return found
