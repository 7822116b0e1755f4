"""Workload controllers: desired replicas, current replicas, and the pod of their template."""

import msgspec

from ullage.errors import Unreadable
from ullage.kube.manifests.filling import PriorityClasses, filled_pod
from ullage.kube.objects.meta import ObjectMeta, OwnerReference
from ullage.kube.objects.pod import KubePod
from ullage.kube.objects.workload import KubeJob, KubeWorkload
from ullage.kube.read.pod import read_pod
from ullage.model.draining import WorkloadReplicas
from ullage.model.pod import Pod

_OVER = ("Complete", "Failed")
_NO_CLASSES = PriorityClasses(())


def read_replicas(raw: KubeWorkload, kind: str) -> WorkloadReplicas:
    """Read the replicas of a ReplicaSet, StatefulSet or DaemonSet. `kind` is given as objects in lists lack it."""
    target = 1 if raw.spec.replicas is None else raw.spec.replicas
    return WorkloadReplicas(
        uid=raw.metadata.uid,
        kind=kind,
        target=target,
        current=raw.status.replicas,
        template=_pod_of(raw, kind, "apps") if target and kind != "DaemonSet" else None,
    )


def read_job(raw: KubeJob) -> WorkloadReplicas:
    """Read the replicas of a Job: at most the completions still missing; 0 if it is over or suspended."""
    spec, status = raw.spec, raw.status
    target = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        target = min(target, max(spec.completions - status.succeeded, 0))
    if spec.suspend or any(one.type in _OVER and one.status == "True" for one in status.conditions):
        target = 0
    return WorkloadReplicas(
        uid=raw.metadata.uid,
        kind="Job",
        target=target,
        current=status.active,
        template=_pod_of(raw, "Job", "batch") if target else None,
    )


def read_workload(raw: KubeWorkload | KubeJob, kind: str) -> WorkloadReplicas:
    """Read the replicas of a controller of any of these kinds."""
    return read_job(raw) if isinstance(raw, KubeJob) else read_replicas(raw, kind)


def _pod_of(raw: KubeWorkload | KubeJob, kind: str, group: str) -> Pod | None:
    """Read the pod of a template; a template that cannot be read makes no pods."""
    meta = raw.metadata
    try:
        made = msgspec.convert(raw.spec.template, KubePod)
        owner = OwnerReference(api_version=f"{group}/v1", kind=kind, name=meta.name, uid=meta.uid, controller=True)
        about = ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            labels=made.metadata.labels,
            annotations=made.metadata.annotations,
            owner_references=(owner,),
        )
        return read_pod(filled_pod(KubePod(metadata=about, spec=made.spec), _NO_CLASSES))
    except (msgspec.ValidationError, Unreadable):
        return None
