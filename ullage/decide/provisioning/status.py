"""Status of a pool from its plan."""

from math import isfinite

from ullage.decide.provisioning.planner import PoolPlan
from ullage.decide.provisioning.silent_agents import silence_of
from ullage.model.intents import ScaleUp
from ullage.model.pool_status import LastDecision, PoolStatus
from ullage.model.units import Instant


def pool_status(plan: PoolPlan, *, before: LastDecision | None, now: Instant) -> PoolStatus:
    """Status of a pool after a decision. An unchanged decision keeps its time."""
    step, provisioner = plan.step, plan.provisioner
    decision = LastDecision(
        action=step.kind.value,
        count=sum(action.count if isinstance(action, ScaleUp) else 1 for action in step.actions),
        at=now,
        why=step.why,
        recommended=step.recommended,
    )
    if before is not None and _same(before, decision):
        decision = before
    return PoolStatus(
        current=plan.evaluation.current,
        target=plan.evaluation.target,
        coming=sum(node.upcoming and not node.failed_to_register for node in plan.nodes),
        utilization_percent=plan.evaluation.utilization_percent,
        tainted=tuple(
            (node.name, node.delete_after)
            for node in plan.nodes
            if node.delete_after is not None and isfinite(node.delete_after)
        ),
        draining=sum(node.draining for node in plan.nodes),
        decision=decision,
        silence=silence_of(plan.nodes),
        silence_excused=any(node.silence_excused for node in plan.nodes),
        paused=provisioner.thresholds.paused,
        purchases=provisioner.purchases,
        purchase=provisioner.purchase,
        awaited=provisioner.awaited,
        back_off=provisioner.back_off,
        agent_taint=_agents_taint(plan),
    )


def _agents_taint(plan: PoolPlan) -> bool:
    """True if agents taint this pool's nodes: as its usable nodes show, or as was seen while it had some."""
    if any(node.agent_taint for node in plan.nodes):
        return True
    return plan.provisioner.agent_taint and not any(node.usable for node in plan.nodes)


def _same(one: LastDecision, other: LastDecision) -> bool:
    return (one.action, one.count, one.why, one.recommended) == (
        other.action,
        other.count,
        other.why,
        other.recommended,
    )
