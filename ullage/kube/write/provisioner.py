"""Status of a NodeProvisioner, from the state of its pool. Builds bodies; the caller sends them."""

from collections.abc import Sequence
from math import ceil

from msgspec.structs import replace

from ullage.clock import Instant
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.provisioner import (
    AwaitedInstanceStatus,
    BackOffStatus,
    LastDecisionStatus,
    NodeProvisionerStatus,
    OpenPurchase,
    TaintedNode,
)
from ullage.kube.timestamps import write_time
from ullage.kube.write.gpu import ConditionSpec, with_aspect
from ullage.model.pool_status import PoolStatus
from ullage.model.provisioner import BackOff, CloudFailure, Purchase

READY, SCALING_UP, SCALING_DOWN, CAPACITY_BLOCKED = "Ready", "ScalingUp", "ScalingDown", "CapacityBlocked"
SCALE_DOWN_THROTTLED = "ScaleDownThrottled"
AGENTS_SILENT = "AgentsSilent"
_LONGEST = 4096


def provisioner_status(
    before: NodeProvisionerStatus, desired: PoolStatus, *, generation: int, now: Instant
) -> NodeProvisionerStatus:
    """A provisioner's whole status. Conditions of others are kept."""
    decision = desired.decision
    return NodeProvisionerStatus(
        current_size=desired.current,
        target_size=desired.target,
        coming_size=desired.coming,
        utilization=desired.utilization_percent,
        unmet_pods=desired.unmet,
        tainted_nodes=tuple(
            TaintedNode(name=name, deletion_time=write_time(Instant(instant))) for name, instant in desired.tainted
        ),
        last_decision=LastDecisionStatus(
            action=decision.action,
            count=decision.count,
            at=write_time(Instant(decision.at)),
            why=decision.why[:_LONGEST],
            recommended=decision.recommended,
        ),
        purchases=desired.purchases,
        purchase=_purchase(desired.purchase),
        awaited=tuple(
            AwaitedInstanceStatus(id=one.instance, since=write_time(Instant(one.since))) for one in desired.awaited
        ),
        back_off=_back_off(desired.back_off),
        agent_taint=desired.agent_taint,
        conditions=_conditions(before.conditions, desired, generation=generation, now=now),
        observed_generation=generation,
    )


def without_provider(
    before: NodeProvisionerStatus, message: str, *, generation: int, now: Instant
) -> NodeProvisionerStatus:
    """Status of a provisioner whose instances are unknown because its provider does not answer."""
    aspect = ConditionSpec(READY, False, "ProviderFailed", message[:_LONGEST])
    return replace(before, conditions=with_aspect(before.conditions, aspect, generation=generation, now=now))


def with_throttling(
    before: NodeProvisionerStatus, *, throttled: bool, generation: int, now: Instant
) -> NodeProvisionerStatus:
    """Return the status with condition ScaleDownThrottled: removable nodes wait as the removal limit is reached."""
    message = "as many nodes are being removed as may be at once" if throttled else ""
    aspect = ConditionSpec(SCALE_DOWN_THROTTLED, throttled, "LimitsReached" if throttled else "NotThrottled", message)
    return replace(before, conditions=with_aspect(before.conditions, aspect, generation=generation, now=now))


def _conditions(
    before: Sequence[Condition], desired: PoolStatus, *, generation: int, now: Instant
) -> tuple[Condition, ...]:
    conditions = tuple(before)
    for aspect in (*_sizes(desired), *_blocks(desired, now), _silence(desired)):
        conditions = with_aspect(conditions, aspect, generation=generation, now=now)
    return conditions


def _sizes(desired: PoolStatus) -> tuple[ConditionSpec, ConditionSpec]:
    grows = desired.current < desired.target or bool(desired.coming)
    shrinks = bool(desired.tainted or desired.draining)
    up = f"{desired.current} of {desired.target} nodes, {desired.coming} of them coming" if grows else ""
    reason = "NodesTainted" if desired.tainted else "NodesDraining" if shrinks else "NothingToGo"
    down = f"{len(desired.tainted) + desired.draining} nodes are to go" if shrinks else ""
    return (
        ConditionSpec(SCALING_UP, grows, "NodesComing" if grows else "AsManyAsWanted", up),
        ConditionSpec(SCALING_DOWN, shrinks, reason, down),
    )


def _blocks(desired: PoolStatus, now: Instant) -> tuple[ConditionSpec, ConditionSpec]:
    back_off = desired.back_off
    ready = ConditionSpec(READY, True, "Reconciled")
    blocked = ConditionSpec(CAPACITY_BLOCKED, False, "NoFailure")
    # A purchase with an unknown outcome is requested again and again: between two requests it is still blocked.
    unknown = desired.purchase is not None and back_off is not None and back_off.failure is CloudFailure.UNKNOWN
    if back_off is not None and (back_off.until > now or unknown):
        reason, message = back_off.failure.value, back_off.message[:_LONGEST]
        blocked = ConditionSpec(CAPACITY_BLOCKED, True, reason, message)
        if back_off.failure is CloudFailure.REFUSED:
            ready = ConditionSpec(READY, False, reason, message)
    if desired.trouble:
        ready = ConditionSpec(READY, False, "ProviderFailed", desired.trouble[:_LONGEST])
    if desired.paused:
        ready = ConditionSpec(READY, False, "Paused", "spec.paused is set")
    return ready, blocked


def _silence(desired: PoolStatus) -> ConditionSpec:
    if not desired.silence:
        return ConditionSpec(AGENTS_SILENT, False, "AgentsReport")
    reason = "NothingBoughtInTheirPlace" if desired.silence_excused else "CountedAsMissing"
    return ConditionSpec(AGENTS_SILENT, True, reason, desired.silence[:_LONGEST])


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
        # Rounded up: a restart must not end the back-off early. A second write keeps the value.
        until=write_time(Instant(ceil(back_off.until))),
        message=back_off.message[:_LONGEST],
    )
