"""NodeProvisioners on the wire to facts. One that breaks a rule raises `Unreadable` with its name and the field."""

from decimal import Decimal

from ullage.errors import Unreadable
from ullage.kube.crds.check import violations
from ullage.kube.objects.provisioner import (
    ConsolidationSpec,
    NodeProvisioner,
    NodeProvisionerSpec,
    NodeProvisionerStatus,
    NodeTemplateSpec,
)
from ullage.kube.read.gpu import read_bytes
from ullage.kube.timestamps import read_time
from ullage.model.device import GpuNodeKind
from ullage.model.duration import parse_duration
from ullage.model.node import Taint
from ullage.model.pool_status import LastDecision
from ullage.model.provisioner import (
    MICROS,
    AwaitedInstance,
    BackOff,
    CapacityType,
    CloudFailure,
    Consolidation,
    ConsolidationPolicy,
    GpuTemplate,
    NodeTemplate,
    PoolThresholds,
    Provisioner,
    Purchase,
)
from ullage.model.quantity import milli
from ullage.model.units import Bytes, Micros, Milli

_PERCENT = 10
"""Thousandths in one."""


def read_provisioner(raw: NodeProvisioner) -> Provisioner:
    """A provisioner's facts."""
    meta, spec, status = raw.metadata, raw.spec, raw.status
    if wrong := violations(raw):
        raise Unreadable(f"NodeProvisioner {meta.name}: {'; '.join(map(str, wrong))}")
    try:
        return Provisioner(
            name=meta.name,
            uid=meta.uid,
            generation=meta.generation,
            template=_template(spec.template),
            thresholds=_thresholds(spec),
            provider=spec.provider.name,
            parameters=spec.provider.parameters,
            consolidation=_consolidation(spec.consolidation),
            purchase=_purchase(status),
            purchases=status.purchases,
            awaited=tuple(AwaitedInstance(instance=one.id, since=read_time(one.since)) for one in status.awaited),
            back_off=_back_off(status),
            agent_taint=status.agent_taint,
        )
    except ValueError as error:
        raise Unreadable(f"NodeProvisioner {meta.name}: {error}") from error


def read_decision(status: NodeProvisionerStatus) -> LastDecision | None:
    """Read the last decision on the pool from the status."""
    last = status.last_decision
    if last is None:
        return None
    return LastDecision(
        action=last.action, count=last.count, at=read_time(last.at), why=last.why, recommended=last.recommended
    )


def read_price(text: str | int | None) -> int:
    """Millionths of a price; 0 where there is none."""
    return int(Decimal(str(text)) * MICROS) if text is not None else 0


def _template(spec: NodeTemplateSpec) -> NodeTemplate:
    gpus = spec.gpus
    return NodeTemplate(
        gpus=GpuTemplate(
            model=gpus.model,
            count=gpus.count,
            memory=Bytes(read_bytes(gpus.memory or 0)),
            islands=gpus.islands,
            bandwidth=gpus.bandwidth,
            kind=GpuNodeKind(gpus.kind),
        ),
        labels=spec.labels,
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in spec.taints),
        resources={name: milli(amount) for name, amount in sorted(spec.resources.items())},
        capacity_type=CapacityType(spec.capacity_type),
        price=Micros(read_price(spec.price_per_hour)),
        zones=tuple(sorted(spec.zones)),
    )


def _thresholds(spec: NodeProvisionerSpec) -> PoolThresholds:
    return PoolThresholds(
        min_size=spec.min_size,
        max_size=spec.max_size,
        min_utilization_percent=spec.min_utilization,
        min_unutilized_nodes=spec.min_unutilized,
        scale_down_delay=parse_duration(spec.scale_down_delay),
        scale_up_batch=parse_duration(spec.scale_up_batch),
        boot_deadline=parse_duration(spec.boot_deadline),
        paused=spec.paused,
        recommend_only=spec.recommend_only,
    )


def _consolidation(spec: ConsolidationSpec) -> Consolidation:
    usual = Consolidation()
    at_once = spec.max_scale_down_parallelism or spec.max_empty_bulk_delete or usual.most_at_once
    drains = spec.max_drain_parallelism
    return Consolidation(
        policy=ConsolidationPolicy(spec.policy),
        unneeded=parse_duration(spec.unneeded_time),
        unready=parse_duration(spec.unready_time),
        used_milli=Milli(spec.utilization_threshold * _PERCENT),
        most_at_once=at_once,
        most_drains=min(usual.most_drains, at_once) if drains is None else drains,
        deprecated=() if spec.max_empty_bulk_delete is None else ("spec.consolidation.maxEmptyBulkDelete",),
    )


def _purchase(status: NodeProvisionerStatus) -> Purchase | None:
    open_one = status.purchase
    if open_one is None:
        return None
    return Purchase(
        serial=open_one.serial,
        count=open_one.count,
        least=open_one.least,
        zone=open_one.zone,
        since=read_time(open_one.since),
    )


def _back_off(status: NodeProvisionerStatus) -> BackOff | None:
    known = status.back_off
    if known is None:
        return None
    return BackOff(
        failure=CloudFailure(known.failure),
        failures=known.failures,
        until=read_time(known.until),
        message=known.message,
    )
