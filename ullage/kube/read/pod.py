"""Pods."""

from ullage.errors import Unreadable
from ullage.kube.moment import read_time
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import Pod as KubePod
from ullage.kube.read.field import within
from ullage.kube.read.shape import read_shape
from ullage.model.event import ObjectKey
from ullage.model.pod import Owner, Phase, Pod


def read_pod(raw: KubePod) -> Pod:
    """A pod's facts."""
    meta, spec = raw.metadata, raw.spec
    try:
        with within("metadata.creationTimestamp"):
            created = read_time(meta.creation_timestamp)
        with within("status.phase"):
            phase = Phase(raw.status.phase or "Pending")
        return Pod(
            key=ObjectKey(meta.namespace, meta.name),
            uid=meta.uid,
            created=created,
            node=spec.node_name,
            phase=phase,
            deleting=meta.deletion_timestamp is not None,
            gated=bool(spec.scheduling_gates),
            scheduler=spec.scheduler_name,
            priority=spec.priority or 0,
            labels=meta.labels,
            shape=read_shape(raw),
            owner=_controller(meta),
        )
    except ValueError as error:
        raise Unreadable(f"pod {meta.namespace}/{meta.name}: {error}") from error


def _controller(meta: ObjectMeta) -> Owner | None:
    for owner in meta.owner_references:
        if owner.controller:
            return Owner(owner.kind, owner.name, owner.uid)
    return None
