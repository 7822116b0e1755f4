"""Pods."""

from ullage.errors import Unreadable
from ullage.kube.objects.meta import Condition, ObjectMeta
from ullage.kube.objects.pod import KubePod, PodStatus
from ullage.kube.read.drain_info import read_marks
from ullage.kube.read.field_error import FieldReadError
from ullage.kube.read.shape import read_shape
from ullage.kube.read.vm import read_vm_marks
from ullage.kube.timestamps import read_time
from ullage.model.allocation import (
    ALLOCATED,
    CLAIM,
    CLAIM_TEMPLATE,
    SHARE,
    VISIBLE_DEVICES,
    given_instances,
    parse_allocation,
    unnamed_claim,
)
from ullage.model.device import MILLI_GPU, MOST_DEVICES
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import CAPACITY_FAILURE
from ullage.model.pod import Owner, Phase, Pod
from ullage.model.refusal import PodScheduledReason
from ullage.model.units import Instant, Milli

_SILENCE = Condition()

_LONGEST_SHARE = 6


def read_pod(raw: KubePod) -> Pod:
    """A pod's facts."""
    meta, spec = raw.metadata, raw.spec
    try:
        return Pod(
            key=ObjectKey(meta.namespace, meta.name),
            uid=meta.uid,
            created=Instant(_created(meta)),
            node=spec.node_name,
            phase=_phase(raw.status.phase),
            deleting=meta.deletion_timestamp is not None,
            gated=bool(spec.scheduling_gates),
            scheduler=spec.scheduler_name,
            priority=spec.priority or 0,
            labels=meta.labels,
            shape=read_shape(raw),
            owner=_controller(meta),
            gpu_ids=(ids := _allocated(meta, spec.node_name)),
            gpu_instances=(instances := _instances(meta) if ids else ()),
            gpu_share=Milli(_share(meta, instances) if ids else MILLI_GPU),
            claim=meta.annotations.get(CLAIM, ""),
            claim_template=meta.annotations.get(CLAIM_TEMPLATE, ""),
            claim_unnamed=unnamed_claim(meta.annotations),
            device_claims=tuple(claim.name for claim in spec.resource_claims),
            nominated=raw.status.nominated_node_name,
            unplaced="" if spec.node_name else _unplaced(raw.status).reason,
            bind_error="" if spec.node_name else _bind_error(raw.status),
            preempts=spec.preemption_policy != "Never",
            marks=read_marks(raw),
            vm=read_vm_marks(meta),
            capacity_failure=raw.metadata.annotations.get(CAPACITY_FAILURE, ""),
            resource_version=meta.resource_version,
        )
    except ValueError as error:
        raise Unreadable(f"pod {meta.namespace}/{meta.name}: {error}") from error


def _created(meta: ObjectMeta) -> float:
    try:
        return read_time(meta.creation_timestamp)
    except ValueError as error:
        raise FieldReadError("metadata.creationTimestamp", str(error)) from error


def _phase(said: str) -> Phase:
    try:
        return Phase(said or "Pending")
    except ValueError as error:
        raise FieldReadError("status.phase", f"{said!r} is not a phase") from error


def _allocated(meta: ObjectMeta, node: str) -> tuple[int, ...]:
    """GPUs of its own node allocated to the pod. A malformed annotation gives none: any user may annotate."""
    written = meta.annotations.get(ALLOCATED)
    if not written or not node:
        return ()
    try:
        allocation = parse_allocation(written)
    except ValueError:
        return ()
    if allocation.node != node:
        return ()
    return tuple(sorted({device for device in allocation.devices if device < MOST_DEVICES}))


def _share(meta: ObjectMeta, instances: tuple[str, ...]) -> int:
    """Thousandths of each GPU; 0 only with MIG instances. A malformed share counts as the whole GPU."""
    written = meta.annotations.get(SHARE, "")
    if len(written) > _LONGEST_SHARE or not written.isdecimal():
        return 0 if instances else MILLI_GPU
    return min(int(written), MILLI_GPU) or (0 if instances else MILLI_GPU)


def _instances(meta: ObjectMeta) -> tuple[str, ...]:
    return given_instances(meta.annotations.get(VISIBLE_DEVICES, ""), meta.annotations.get(SHARE, ""))


def _unplaced(status: PodStatus) -> Condition:
    """Condition PodScheduled=False of the pod; an empty condition if it has none."""
    for condition in status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition
    return _SILENCE


def _bind_error(status: PodStatus) -> str:
    condition = _unplaced(status)
    return condition.message if condition.reason == PodScheduledReason.SCHEDULER_ERROR else ""


def _controller(meta: ObjectMeta) -> Owner | None:
    for owner in meta.owner_references:
        if owner.controller:
            return Owner(owner.kind, owner.name, owner.uid)
    return None
