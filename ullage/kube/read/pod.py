"""Pods."""

from ullage.errors import Unreadable
from ullage.kube.moment import read_time
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import Pod as KubePod
from ullage.kube.objects.pod import PodStatus
from ullage.kube.read.field import FieldError
from ullage.kube.read.marks import read_marks
from ullage.kube.read.shape import read_shape
from ullage.model.allocation import ALLOCATED, CLAIM, CLAIM_TEMPLATE, SHARE, VISIBLE_DEVICES, parse_allocation
from ullage.model.device import MILLI_GPU, MOST_DEVICES
from ullage.model.event import ObjectKey
from ullage.model.pod import Owner, Phase, Pod


def read_pod(raw: KubePod) -> Pod:
    """A pod's facts."""
    meta, spec = raw.metadata, raw.spec
    try:
        return Pod(
            key=ObjectKey(meta.namespace, meta.name),
            uid=meta.uid,
            created=_created(meta),
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
            gpu_share=_share(meta) if ids else MILLI_GPU,
            gpu_instances=_instances(meta) if ids else (),
            claim=meta.annotations.get(CLAIM, ""),
            claim_template=meta.annotations.get(CLAIM_TEMPLATE, ""),
            device_claims=tuple(claim.name for claim in spec.resource_claims),
            nominated=raw.status.nominated_node_name,
            unplaced="" if spec.node_name else _unplaced(raw.status),
            preempts=spec.preemption_policy != "Never",
            marks=read_marks(raw),
            resource_version=meta.resource_version,
        )
    except ValueError as error:
        raise Unreadable(f"pod {meta.namespace}/{meta.name}: {error}") from error


def _created(meta: ObjectMeta) -> float:
    try:
        return read_time(meta.creation_timestamp)
    except ValueError as error:
        raise FieldError("metadata.creationTimestamp", str(error)) from error


def _phase(said: str) -> Phase:
    try:
        return Phase(said or "Pending")
    except ValueError as error:
        raise FieldError("status.phase", f"{said!r} is not a phase") from error


def _allocated(meta: ObjectMeta, node: str) -> tuple[int, ...]:
    """The GPUs of its own node the pod was given. What is not an allocation gives nothing: anybody may annotate."""
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


def _share(meta: ObjectMeta) -> int:
    written = meta.annotations.get(SHARE, "")
    return min(int(written), MILLI_GPU) if written.isdecimal() else MILLI_GPU


def _instances(meta: ObjectMeta) -> tuple[str, ...]:
    """MIG instances among what its containers see."""
    seen = meta.annotations.get(VISIBLE_DEVICES, "").split(",")
    return tuple(uuid for uuid in seen if uuid.startswith("MIG-"))


def _unplaced(status: PodStatus) -> str:
    for condition in status.conditions:
        if condition.type == "PodScheduled":
            return condition.reason if condition.status == "False" else ""
    return ""


def _controller(meta: ObjectMeta) -> Owner | None:
    for owner in meta.owner_references:
        if owner.controller:
            return Owner(owner.kind, owner.name, owner.uid)
    return None
