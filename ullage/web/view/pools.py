"""Pool as shown: nodes it has, wants and awaits, and the last decision."""

from dataclasses import dataclass

from ullage.errors import Unreadable
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.kube.read.provisioner import read_decision, read_provisioner
from ullage.model.pool_status import LastDecision
from ullage.model.provisioner import MICROS, Provisioner
from ullage.web.view.rows import PoolRow


@dataclass(frozen=True, slots=True)
class PoolView:
    """Facts of a pool, and its state from the NodeProvisioner's status."""

    facts: Provisioner
    current: int | None
    target: int | None
    coming: int | None
    utilization: int | None
    decision: LastDecision | None


def read_pool(raw: NodeProvisioner) -> PoolView:
    """Read a NodeProvisioner. Raises Unreadable if it breaks a rule."""
    facts, status = read_provisioner(raw), raw.status
    try:
        decision = read_decision(status)
    except ValueError as error:
        raise Unreadable(f"NodeProvisioner {raw.metadata.name}: status.lastDecision: {error}") from error
    return PoolView(facts, status.current_size, status.target_size, status.coming_size, status.utilization, decision)


def pool_row(pool: PoolView) -> PoolRow:
    facts, last = pool.facts, pool.decision
    template, limits, blocked = facts.template, facts.thresholds, facts.back_off
    return PoolRow(
        name=facts.name,
        model=template.gpus.model,
        gpus=template.gpus.count,
        islands=template.gpus.islands,
        price=template.price / MICROS,
        capacity_type=template.capacity_type.value,
        provider=facts.provider,
        current=pool.current,
        target=pool.target,
        coming=pool.coming,
        least=limits.min_size,
        most=limits.max_size,
        utilization=pool.utilization,
        paused=limits.paused,
        recommend_only=limits.recommend_only,
        blocked="" if blocked is None else f"{blocked.failure.value}: {blocked.message}",
        blocked_until=None if blocked is None else blocked.until,
        decision="" if last is None else last.action,
        decided_at=None if last is None else last.at,
        why="" if last is None else last.why,
    )
