"""What a pod and its owner say of moving it: annotations, volumes, conditions, the way it ends."""

from functools import lru_cache

from ullage.kube.moment import read_time
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import Pod as KubePod
from ullage.kube.read.field import within
from ullage.model.pod_marks import DEFAULT_GRACE, PodMarks, SafeToEvict

# Cluster Autoscaler's words, which workloads carry already.
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
DAEMON_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
MIRROR = "kubernetes.io/config.mirror"

_SPOKEN = {said.value: said for said in SafeToEvict}


def read_marks(raw: KubePod) -> PodMarks:
    """A pod's marks; the same object for pods that have the same."""
    meta, spec = raw.metadata, raw.spec
    notes = meta.annotations
    deleted_at = None
    if meta.deletion_timestamp is not None:
        with within("metadata.deletionTimestamp"):
            deleted_at = read_time(meta.deletion_timestamp)
    grace = spec.termination_grace_period_seconds
    marks = PodMarks(
        mirror=MIRROR in notes,
        daemon=notes.get(DAEMON_POD) == "true",
        safe_to_evict=_safe(notes),
        local_volumes=_local_volumes(raw) if spec.volumes else (),
        restart=spec.restart_policy or "Always",
        ready=next((c.status for c in raw.status.conditions if c.type == "Ready"), "True") == "True",
        deleted_at=deleted_at,
        grace=DEFAULT_GRACE if grace is None else float(grace),
        owner_group=_owner_group(meta),
    )
    return _one_of_equals(marks)


@lru_cache(maxsize=4096)
def _one_of_equals(marks: PodMarks) -> PodMarks:
    return marks


def _safe(notes: dict[str, str]) -> SafeToEvict:
    said = _SPOKEN.get(notes.get(SAFE_TO_EVICT, ""), SafeToEvict.UNSAID)
    if said is SafeToEvict.UNSAID and notes.get(DO_NOT_DISRUPT) == "true":
        return SafeToEvict.NO
    return said


def _local_volumes(raw: KubePod) -> tuple[str, ...]:
    """Those on the node's disk. What is in memory is lost with the pod in any case."""
    safe = {name.strip() for name in raw.metadata.annotations.get(SAFE_VOLUMES, "").split(",")}
    return tuple(
        volume.name
        for volume in raw.spec.volumes
        if volume.name not in safe
        and (
            volume.host_path is not None
            or (volume.empty_dir is not None and volume.empty_dir.get("medium") != "Memory")
        )
    )


def _owner_group(meta: ObjectMeta) -> str:
    for owner in meta.owner_references:
        if owner.controller:
            return owner.api_version.rpartition("/")[0]
    return ""
