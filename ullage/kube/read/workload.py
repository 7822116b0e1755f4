"""Controllers that make pods again: how many there are to be, and how many there are."""

from ullage.kube.objects.workload import Job
from ullage.kube.objects.workload import Workload as KubeWorkload
from ullage.model.drain import Workload


def read_replicas(raw: KubeWorkload, kind: str) -> Workload:
    """Of a ReplicaSet, StatefulSet or DaemonSet, which the object itself need not say."""
    target = 1 if raw.spec.replicas is None else raw.spec.replicas
    return Workload(uid=raw.metadata.uid, kind=kind, target=target, current=raw.status.replicas)


def read_job(raw: Job) -> Workload:
    """Of a Job: no more pods than are still to succeed."""
    spec, status = raw.spec, raw.status
    target = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        target = min(target, max(spec.completions - status.succeeded, 0))
    return Workload(uid=raw.metadata.uid, kind="Job", target=target, current=status.active)


def read_workload(raw: KubeWorkload | Job, kind: str) -> Workload:
    """Whichever it is."""
    return read_job(raw) if isinstance(raw, Job) else read_replicas(raw, kind)
