"""Jobs as Kubernetes objects: pods, with a GpuClaim if a plain resource request cannot express the job."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.decide.placement.devices.gpu_models import ALTERNATIVES
from ullage.model.device import MILLI_GPU
from ullage.model.resources import GPU
from ullage.model.scoring import DEFAULT_SCHEDULER
from ullage.sim.kubelet.timings import DURATION
from ullage.sim.workload.job import TraceJob
from ullage.sim.world.spec import Arrival

CLAIM = "gpu.scheduling/claim"
KEEPS_CLOCK = "clock"
AGAIN = "again"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOptions:
    """Options for making pods from jobs."""

    ends: str = "running"
    """Value of the setting simulation.ends."""
    load: float = 1.0
    """Factor by which arrivals are faster than in the workload."""
    evicted: str = AGAIN
    """Value of the setting simulation.evicted."""
    share_of: int = 80 << 30
    """Bytes of GPU memory that a share of a GPU is a share of."""
    scheduler: str = DEFAULT_SCHEDULER


def arrivals(jobs: Sequence[TraceJob], manner: PodOptions) -> list[Arrival]:
    """Arrivals, in the order of the jobs."""
    return [_arrival(job, manner) for job in jobs]


def surroundings(jobs: Sequence[TraceJob]) -> list[dict[str, Any]]:
    """Objects needed before the jobs: the namespaces they are in and the priority classes they name."""
    namespaces = sorted({job.namespace for job in jobs} - {"default"})
    priorities = sorted({job.priority for job in jobs if job.priority})
    return [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces),
        *(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": _class_of(priority)},
                "value": priority,
            }
            for priority in priorities
        ),
    ]


def _arrival(job: TraceJob, manner: PodOptions) -> Arrival:
    at = job.at / manner.load
    leaves = at + job.stays if manner.ends == KEEPS_CLOCK and job.stays is not None else None
    return Arrival(at=at, objects=tuple(_objects(job, manner)), leaves_at=leaves, again=manner.evicted == AGAIN)


def _objects(job: TraceJob, manner: PodOptions) -> Iterator[dict[str, Any]]:
    names = [job.name] if job.pods == 1 else [f"{job.name}-{member}" for member in range(job.pods)]
    for name in names:
        claim = _claim(job, name, manner)
        if claim is not None:
            yield claim
        yield _pod(job, name, manner, claimed=claim is not None)


def _claim(job: TraceJob, name: str, manner: PodOptions) -> dict[str, Any] | None:
    """GpuClaim of a job; None if a plain resource request is enough."""
    if not job.gpus or not (job.is_share or job.pods > 1 or job.models):
        return None
    devices: dict[str, Any] = {"count": job.gpus}
    if job.models:
        devices["model"] = ALTERNATIVES.join(job.models)
    if job.is_share:
        devices |= {"exclusivity": "Shared", "memory": job.gpu_memory or job.share_milli * manner.share_of // MILLI_GPU}
    spec: dict[str, Any] = {"devices": devices}
    if job.pods > 1:
        spec |= {"gangRef": job.name, "gangMinMember": job.pods}
    return {
        "apiVersion": "gpu.scheduling/v1",
        "kind": "GpuClaim",
        "metadata": {"name": name, "namespace": job.namespace},
        "spec": spec,
    }


def _pod(job: TraceJob, name: str, manner: PodOptions, *, claimed: bool) -> dict[str, Any]:
    annotations = {CLAIM: name} if claimed else {}
    if manner.evicted == AGAIN:
        annotations[SAFE_TO_EVICT] = "true"
    if manner.ends != KEEPS_CLOCK and job.seconds is not None:
        annotations[DURATION] = f"{job.seconds:.3f}"
    requests = {"cpu": f"{job.cpu_milli}m", "memory": str(job.memory)}
    if job.gpus and not job.is_share:
        requests[GPU] = str(job.gpus)
    asked = {what: amount for what, amount in requests.items() if amount not in ("0", "0m")}
    spec: dict[str, Any] = {
        "schedulerName": manner.scheduler,
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example.test/job:v1", "resources": _resources(asked)}],
    }
    if job.priority:
        spec["priorityClassName"] = _class_of(job.priority)
    meta = {"name": name, "namespace": job.namespace, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _resources(asked: dict[str, str]) -> dict[str, Any]:
    """Resources of a container. GPUs are limits too, because Kubernetes wants both to be equal."""
    gpus = {what: amount for what, amount in asked.items() if what == GPU}
    return {"requests": asked, **({"limits": gpus} if gpus else {})}


def _class_of(priority: int) -> str:
    return f"priority-{priority}" if priority >= 0 else f"priority-minus-{-priority}"
