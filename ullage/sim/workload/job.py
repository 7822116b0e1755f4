"""One job of a workload: pods that arrive together with equal requests. Frozen; times are seconds."""

import msgspec


class TraceJob(msgspec.Struct, frozen=True, kw_only=True):
    """A pod, or a gang of equal pods that are placed together or not at all."""

    name: str
    """Name of the pod. Members of a gang get a number appended."""
    at: float
    """Arrival time, in seconds since the beginning."""
    seconds: float | None = None
    """Run time in seconds once started; None: until it is deleted."""
    stays: float | None = None
    """Seconds from its arrival to its deletion in the trace it is from, whether finished or not."""
    pods: int = 1
    gpus: int = 0
    """GPUs of each pod."""
    share_milli: int = 1000
    """Share of its one GPU, in thousandths."""
    gpu_memory: int = 0
    """Bytes of each GPU it shares; takes precedence over `share_milli`."""
    models: tuple[str, ...] = ()
    """GPU models that are acceptable; any if empty."""
    cpu_milli: int = 0
    memory: int = 0
    """Bytes."""
    priority: int = 0
    namespace: str = "default"

    @property
    def is_share(self) -> bool:
        return self.gpus > 0 and (self.share_milli < 1000 or self.gpu_memory > 0)


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs in order of arrival, and the rows of the file that were left out, one sentence each."""

    jobs: tuple[TraceJob, ...]
    skipped: tuple[str, ...] = ()
    name: str = ""
    """Name of the file without its folder, for reports."""
    impossible: tuple[str, ...] = ()
    """Jobs that were left out because they can never run, one sentence for each kind of them."""
    impossible_pods: int = 0

    @property
    def pods(self) -> int:
        return sum(job.pods for job in self.jobs)


def in_order(jobs: list[TraceJob]) -> tuple[TraceJob, ...]:
    """Jobs by arrival, then as given. Times are shifted so that the first one arrives at 0."""
    first = min((job.at for job in jobs), default=0.0)
    moved = jobs if not first else [msgspec.structs.replace(job, at=job.at - first) for job in jobs]
    return tuple(sorted(moved, key=lambda job: job.at))
