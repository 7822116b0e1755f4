"""Plans and outcomes as numbers."""

from ullage.decide.pool.plan import FleetPlan, PoolPlan
from ullage.model.pool_outcome import Bought, NotBought, PoolDone, PoolNotDone, PoolOutcome
from ullage.model.provisioner import Failure
from ullage.observe.provisioning_metrics import ProvisioningMetrics

DONE = "Done"


def show(metrics: ProvisioningMetrics, plan: FleetPlan, *, now: float) -> None:
    """How all pools stand."""
    metrics.forget_others(plan.pools)
    metrics.unmet(len(plan.demand.unmet))
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
    """One action that has ended."""
    kind = type(outcome.action).__name__
    match outcome:
        case PoolDone():
            metrics.action(kind, DONE)
        case PoolNotDone(setback=setback):
            metrics.action(kind, setback.value)
        case Bought(action=action, instances=instances, failure=failure):
            metrics.action(kind, DONE if failure is None else failure.value)
            metrics.bought(action.provisioner, len(instances))
        case NotBought(failure=failure):
            metrics.action(kind, (failure or Failure.UNKNOWN).value)


def _states(pool: PoolPlan) -> dict[str, int]:
    found = {"ready": 0, "coming": 0, "tainted": 0, "lost": 0}
    for node in pool.nodes:
        state = "lost" if node.lost else "tainted" if node.doomed else "coming" if node.coming else "ready"
        found[state] += 1
    return found
