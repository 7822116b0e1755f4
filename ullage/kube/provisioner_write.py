"""How a pool stands, as the status of its NodeProvisioner. Makes bodies; sending them is the caller's."""

from collections.abc import Sequence
from math import ceil

from msgspec.structs import replace

from ullage.clock import Instant
from ullage.kube.gpu_write import Aspect, with_aspect
from ullage.kube.moment import write_time
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.provisioner import (
    AwaitedInstance,
    BackOffStatus,
    Decision,
    NodeProvisionerStatus,
    OpenPurchase,
    TaintedNode,
)
from ullage.model.pool_standing import PoolStanding
from ullage.model.provisioner import BackOff, Failure, Purchase

READY, SCALING_UP, SCALING_DOWN, CAPACITY_BLOCKED = "Ready", "ScalingUp", "ScalingDown", "CapacityBlocked"
SCALE_DOWN_THROTTLED = "ScaleDownThrottled"
_LONGEST = 4096


def provisioner_status(
    before: NodeProvisionerStatus, standing: PoolStanding, *, generation: int, now: Instant
) -> NodeProvisionerStatus:
    """A provisioner's whole status. Conditions of others are kept."""
    decision = standing.decision
    return NodeProvisionerStatus(
        current_size=standing.current,
        target_size=standing.target,
        coming_size=standing.coming,
        utilization=standing.utilization_percent,
        tainted_nodes=tuple(
            TaintedNode(name=name, deletion_time=write_time(Instant(moment))) for name, moment in standing.tainted
        ),
        last_decision=Decision(
            action=decision.action,
            count=decision.count,
            at=write_time(Instant(decision.at)),
            why=decision.why[:_LONGEST],
            recommended=decision.recommended,
        ),
        purchases=standing.purchases,
        purchase=_purchase(standing.purchase),
        awaited=tuple(
            AwaitedInstance(id=one.instance, since=write_time(Instant(one.since))) for one in standing.awaited
        ),
        back_off=_back_off(standing.back_off),
        conditions=_conditions(before.conditions, standing, generation=generation, now=now),
        observed_generation=generation,
    )


def without_provider(
    before: NodeProvisionerStatus, message: str, *, generation: int, now: Instant
) -> NodeProvisionerStatus:
    """The status of a provisioner of whose machines nothing is known, because its provider does not answer."""
    aspect = Aspect(READY, False, "ProviderFailed", message[:_LONGEST])
    return replace(before, conditions=with_aspect(before.conditions, aspect, generation=generation, now=now))


def with_throttling(
    before: NodeProvisionerStatus, *, throttled: bool, generation: int, now: Instant
) -> NodeProvisionerStatus:
    """The same status, with whether nodes that could go have to wait because so many are going already."""
    message = "as many nodes are being removed as may be at once" if throttled else ""
    aspect = Aspect(SCALE_DOWN_THROTTLED, throttled, "LimitsReached" if throttled else "NotThrottled", message)
    return replace(before, conditions=with_aspect(before.conditions, aspect, generation=generation, now=now))


def _conditions(
    before: Sequence[Condition], standing: PoolStanding, *, generation: int, now: Instant
) -> tuple[Condition, ...]:
    conditions = tuple(before)
    for aspect in (*_sizes(standing), *_blocks(standing, now)):
        conditions = with_aspect(conditions, aspect, generation=generation, now=now)
    return conditions


def _sizes(standing: PoolStanding) -> tuple[Aspect, Aspect]:
    grows = standing.current < standing.target or bool(standing.coming)
    shrinks = bool(standing.tainted or standing.draining)
    up = f"{standing.current} of {standing.target} nodes, {standing.coming} of them coming" if grows else ""
    reason = "NodesTainted" if standing.tainted else "NodesDraining" if shrinks else "NothingToGo"
    down = f"{len(standing.tainted) + standing.draining} nodes are to go" if shrinks else ""
    return (
        Aspect(SCALING_UP, grows, "NodesComing" if grows else "AsManyAsWanted", up),
        Aspect(SCALING_DOWN, shrinks, reason, down),
    )


def _blocks(standing: PoolStanding, now: Instant) -> tuple[Aspect, Aspect]:
    back_off = standing.back_off
    ready = Aspect(READY, True, "Reconciled")
    blocked = Aspect(CAPACITY_BLOCKED, False, "NoFailure")
    if back_off is not None and back_off.until > now:
        reason, message = back_off.failure.value, back_off.message[:_LONGEST]
        blocked = Aspect(CAPACITY_BLOCKED, True, reason, message)
        if back_off.failure is Failure.REFUSED:
            ready = Aspect(READY, False, reason, message)
    if standing.paused:
        ready = Aspect(READY, False, "Paused", "spec.paused is set")
    return ready, blocked


def _purchase(purchase: Purchase | None) -> OpenPurchase | None:
    if purchase is None:
        return None
    return OpenPurchase(
        serial=purchase.serial,
        count=purchase.count,
        least=purchase.least,
        zone=purchase.zone,
        since=write_time(Instant(purchase.since)),
    )


def _back_off(back_off: BackOff | None) -> BackOffStatus | None:
    if back_off is None:
        return None
    return BackOffStatus(
        failure=back_off.failure.value,
        failures=back_off.failures,
        # Rounded up: nobody is let back in too early by writing it down. And written again, it stays what it is.
        until=write_time(Instant(ceil(back_off.until))),
        message=back_off.message[:_LONGEST],
    )
