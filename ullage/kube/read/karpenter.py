"""Karpenter's objects, smart pods and the nodes bought for them, to facts."""

from collections.abc import Iterable

import msgspec

from ullage.errors import Unreadable
from ullage.kube.objects.karpenter import KubeEvent, KubeNodeClaim, KubeNodePool, NodeClaimRequirement
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.node import KubeNode, KubeTaint
from ullage.kube.objects.pod import KubePod
from ullage.kube.read.field_error import within
from ullage.kube.read.requests import amounts
from ullage.kube.timestamps import read_time
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import (
    ATTEMPTS,
    DISRUPTED_TAINT,
    DO_NOT_DISRUPT,
    HANDOVER,
    HANDOVER_UNPROTECTED,
    INITIALIZED_LABEL,
    NODE_CLAIM,
    NODE_POOL_LABEL,
    ORIGINAL_REQUEST,
    REQUEST_LABEL,
    STATE_LABEL,
    STATE_SINCE,
    UNSAID,
    Handover,
    HandoverNode,
    KarpenterEvent,
    NodeClaim,
    NodePool,
    ObservedCondition,
    OriginalRequest,
    Regarding,
    SmartPod,
    Tristate,
)
from ullage.model.node import Taint
from ullage.model.resources import GPU, MILLI
from ullage.model.selector import Operator, Requirement
from ullage.model.units import Instant, Seconds

_decode_original = msgspec.json.Decoder(OriginalRequest).decode
_decode_handover = msgspec.json.Decoder(Handover).decode
_OPERATORS = {one.value: one for one in Operator}
_REGARDING = {one.value: one for one in Regarding}


def read_node_claim(raw: KubeNodeClaim) -> NodeClaim:
    """A NodeClaim's facts."""
    meta = raw.metadata
    try:
        with within("spec.resources.requests"):
            requests = amounts(raw.spec.resources.requests)
        return NodeClaim(
            name=meta.name,
            uid=meta.uid,
            created=read_time(meta.creation_timestamp),
            deleting=meta.deletion_timestamp is not None,
            labels=meta.labels,
            node=raw.status.node_name,
            requests=requests,
            requirements=tuple(_requirements(raw.spec.requirements)),
            conditions={one.type: _condition(one) for one in raw.status.conditions},
        )
    except ValueError as error:
        raise Unreadable(f"NodeClaim {meta.name}: {error}") from error


def read_node_pool(raw: KubeNodePool) -> NodePool:
    """A NodePool's facts. Operators that compare numbers say nothing about which labels nodes get."""
    meta, spec = raw.metadata, raw.spec.template.spec
    try:
        with within("spec.limits"):
            limits = amounts({name: str(amount) for name, amount in raw.spec.limits.items()})
        with within("status.resources"):
            usage = amounts({name: str(amount) for name, amount in raw.status.resources.items()})
    except ValueError as error:
        raise Unreadable(f"NodePool {meta.name}: {error}") from error
    return NodePool(
        name=meta.name,
        uid=meta.uid,
        generation=meta.generation,
        deleting=meta.deletion_timestamp is not None,
        requirements=tuple(_requirements(spec.requirements)),
        labels=raw.spec.template.metadata.labels,
        taints=_taints(spec.taints),
        startup_taints=_taints(spec.startup_taints),
        limits=_with_zeros(raw.spec.limits, limits),
        usage=usage,
        ready=_named(raw.status.conditions, "Ready"),
        unprotected=_named(raw.status.conditions, HANDOVER_UNPROTECTED),
    )


def read_smart_pod(raw: KubePod) -> SmartPod:
    """Read a smart pod's facts. Malformed labels and annotations read as not set: any user may write them."""
    meta, notes = raw.metadata, raw.metadata.annotations
    written = notes.get(ATTEMPTS, "")
    return SmartPod(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        created=Instant(_time(meta.creation_timestamp)),
        request=meta.labels.get(REQUEST_LABEL, ""),
        node=raw.spec.node_name,
        over=raw.status.phase in ("Succeeded", "Failed"),
        deleting=meta.deletion_timestamp is not None,
        grace_period=Seconds(max(0, meta.deletion_grace_period_seconds or 0)),
        original=_original(notes.get(ORIGINAL_REQUEST, "")),
        state=meta.labels.get(STATE_LABEL, ""),
        state_since=Instant(_time(notes.get(STATE_SINCE))),
        attempts=int(written) if written.isdecimal() and len(written) < 10 else 0,
        node_claim=notes.get(NODE_CLAIM, ""),
    )


def read_handover_node(raw: KubeNode) -> HandoverNode:
    """A node that was bought for a request."""
    meta = raw.metadata
    try:
        with within("status.allocatable"):
            gpus = amounts(raw.status.allocatable).get(GPU, 0) // MILLI
    except ValueError as error:
        raise Unreadable(f"node {meta.name}: {error}") from error
    closed = next((one.value for one in raw.spec.taints if one.key == HANDOVER), None)
    return HandoverNode(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        request=meta.labels.get(REQUEST_LABEL, ""),
        node_pool=meta.labels.get(NODE_POOL_LABEL, ""),
        ready=any(one.type == "Ready" and one.status == "True" for one in raw.status.conditions),
        deleting=meta.deletion_timestamp is not None,
        initialized=meta.labels.get(INITIALIZED_LABEL) == "true",
        disrupted=any(one.key == DISRUPTED_TAINT for one in raw.spec.taints),
        gpus=gpus,
        closed_for=closed,
        handover=_handover(meta.annotations.get(HANDOVER, "")),
        kept=meta.annotations.get(DO_NOT_DISRUPT) == "true",
    )


def read_karpenter_event(raw: KubeEvent) -> KarpenterEvent:
    """An Event about a pod or a NodeClaim. Others raise Unreadable: select them away."""
    meta, about = raw.metadata, raw.regarding
    if about.kind not in _REGARDING:
        raise Unreadable(f"Event {meta.namespace}/{meta.name}: regarding.kind is {about.kind!r}")
    times = (
        raw.series.last_observed_time if raw.series is not None else None,
        raw.deprecated_last_timestamp,
        raw.event_time,
        raw.deprecated_first_timestamp,
        meta.creation_timestamp,
    )
    return KarpenterEvent(
        key=ObjectKey(meta.namespace, meta.name),
        regarding=_REGARDING[about.kind],
        about=ObjectKey(about.namespace, about.name),
        about_uid=about.uid,
        reason=raw.reason,
        note=raw.note,
        reporter=raw.reporting_controller or raw.deprecated_source.component,
        at=Instant(next((_time(text) for text in times if text), 0.0)),
    )


def _named(conditions: Iterable[Condition], name: str) -> ObservedCondition:
    return next((_condition(one) for one in conditions if one.type == name), UNSAID)


def _condition(raw: Condition) -> ObservedCondition:
    status = Tristate(raw.status) if raw.status in ("True", "False") else Tristate.UNKNOWN
    return ObservedCondition(status, raw.reason, raw.message, Instant(_time(raw.last_transition_time)))


def _requirements(raw: Iterable[NodeClaimRequirement]) -> Iterable[Requirement]:
    for one in raw:
        if one.operator in _OPERATORS:
            yield Requirement(one.key, _OPERATORS[one.operator], one.values)


def _taints(raw: Iterable[KubeTaint]) -> tuple[Taint, ...]:
    return tuple(Taint(one.key, one.value, one.effect) for one in raw)


def _with_zeros(raw: dict[str, object], limits: dict[str, int]) -> dict[str, int]:
    """A limit of zero is a limit; a request for zero, which is left out elsewhere, is none."""
    return {name: limits.get(name, 0) for name in raw}


def _time(text: str | None) -> float:
    try:
        return read_time(text)
    except ValueError:
        return 0.0


def _original(text: str) -> OriginalRequest | None:
    try:
        return _decode_original(text)
    except msgspec.DecodeError:
        return None


def _handover(text: str) -> Handover | None:
    try:
        return _decode_handover(text) if text else None
    except msgspec.DecodeError:
        return None
