"""From what was decided on a pool to what its status says."""

from math import isfinite

from ullage.decide.pool.plan import PoolPlan
from ullage.model.pool_action import Provision
from ullage.model.pool_standing import LastDecision, PoolStanding


def standing_of(plan: PoolPlan, *, before: LastDecision | None, now: float) -> PoolStanding:
    """How a pool stands after a decision. The moment of a decision that is the same as before stays as it was."""
    step, provisioner = plan.step, plan.provisioner
    decision = LastDecision(
        action=step.kind.value,
        count=sum(action.count if isinstance(action, Provision) else 1 for action in step.actions),
        at=now,
        why=step.why,
        recommended=step.recommended,
    )
    if before is not None and _same(before, decision):
        decision = before
    return PoolStanding(
        current=plan.evaluation.current,
        target=plan.evaluation.target,
        coming=sum(node.coming and not node.lost for node in plan.nodes),
        utilization_percent=plan.evaluation.utilization_percent,
        tainted=tuple(
            (node.name, node.delete_after)
            for node in plan.nodes
            if node.delete_after is not None and isfinite(node.delete_after)
        ),
        draining=sum(node.draining for node in plan.nodes),
        decision=decision,
        paused=provisioner.thresholds.paused,
        purchases=provisioner.purchases,
        purchase=provisioner.purchase,
        awaited=provisioner.awaited,
        back_off=provisioner.back_off,
    )


def _same(one: LastDecision, other: LastDecision) -> bool:
    return (one.action, one.count, one.why, one.recommended) == (
        other.action,
        other.count,
        other.why,
        other.recommended,
    )
