"""Drain info of a pod: annotations, volumes, conditions and termination that decide if it may be moved."""

from functools import lru_cache

from ullage.kube.objects.pod import KubePod
from ullage.kube.read.field_error import within
from ullage.kube.timestamps import read_time
from ullage.model.pod_marks import DEFAULT_GRACE_PERIOD, PodDrainInfo, SafeToEvict
from ullage.model.units import Instant, Seconds

# Cluster Autoscaler's words, which workloads carry already.
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
DAEMON_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
MIRROR = "kubernetes.io/config.mirror"

_SPOKEN = {said.value: said for said in SafeToEvict}

_Said = tuple[str, str, str, tuple[str, ...], str, bool, Instant | None, int | None, str]
"""Parts of a `PodDrainInfo`: two annotations for what it is, one for what its owner says, and so on as there."""


def read_marks(raw: KubePod) -> PodDrainInfo:
    """Read a pod's drain info; equal ones are one object. Called for every event of every pod, thus kept short."""
    meta, spec = raw.metadata, raw.spec
    notes = meta.annotations
    deleted_at = None
    if meta.deletion_timestamp is not None:
        with within("metadata.deletionTimestamp"):
            deleted_at = read_time(meta.deletion_timestamp)
    ready = True
    for condition in raw.status.conditions:
        if condition.type == "Ready":
            ready = condition.status == "True"
            break
    group = ""
    for owner in meta.owner_references:
        if owner.controller:
            group = owner.api_version
            break
    lost = _local_volumes(raw) if spec.volumes else ()
    grace_period = spec.termination_grace_period_seconds
    if not notes:
        return _marks(("", "", "", lost, spec.restart_policy, ready, deleted_at, grace_period, group))
    mirror, daemon = "yes" if MIRROR in notes else "", notes.get(DAEMON_POD, "")
    return _marks((mirror, daemon, _safe(notes), lost, spec.restart_policy, ready, deleted_at, grace_period, group))


@lru_cache(maxsize=4096)
def _marks(said: _Said) -> PodDrainInfo:
    mirror, daemon, safe, lost, restart, ready, deleted_at, grace_period, group = said
    return PodDrainInfo(
        mirror=bool(mirror),
        daemon=daemon == "true",
        safe_to_evict=_SPOKEN.get(safe, SafeToEvict.UNSAID),
        local_volumes=lost,
        restart=restart or "Always",
        ready=ready,
        deleted_at=deleted_at,
        grace_period=DEFAULT_GRACE_PERIOD if grace_period is None else Seconds(float(grace_period)),
        owner_group=group.rpartition("/")[0],
    )


def _safe(notes: dict[str, str]) -> str:
    said = notes.get(SAFE_TO_EVICT, "")
    if said in _SPOKEN and said:
        return said
    return SafeToEvict.NO if notes.get(DO_NOT_DISRUPT) == "true" else ""


def _local_volumes(raw: KubePod) -> tuple[str, ...]:
    """Volumes on the node's disk that are not declared safe. Volumes in memory are lost with the pod in any case."""
    lost: list[str] = []
    for volume in raw.spec.volumes:
        disk = volume.empty_dir is not None and volume.empty_dir.get("medium") != "Memory"
        if disk or volume.host_path is not None:
            lost.append(volume.name)
    if not lost:
        return ()
    safe = {name.strip() for name in raw.metadata.annotations.get(SAFE_VOLUMES, "").split(",")}
    return tuple(name for name in lost if name not in safe)
