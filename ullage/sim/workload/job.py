"""One line of a workload: pods that arrive together and ask for the same. Frozen; times are seconds."""

import msgspec


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A pod, or a gang of equal pods that are placed together or not at all."""

    name: str
    """Of the pod; members of a gang get a number behind it."""
    at: float
    """When it arrives, since the beginning."""
    seconds: float | None = None
    """How long it works once it has started; None: until somebody ends it."""
    stays: float | None = None
    """From its arrival until it is taken away, whatever has become of it, in the trace it is from."""
    pods: int = 1
    gpus: int = 0
    """Of each pod."""
    share_milli: int = 1000
    """Of its one GPU, in thousandths."""
    gpu_memory: int = 0
    """Bytes of each GPU it shares; counts before `share_milli`."""
    models: tuple[str, ...] = ()
    """GPU models that would do; any, if none is named."""
    cpu_milli: int = 0
    memory: int = 0
    """Bytes."""
    priority: int = 0
    namespace: str = "default"

    @property
    def is_share(self) -> bool:
        return self.gpus > 0 and (self.share_milli < 1000 or self.gpu_memory > 0)


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """All that arrives, in order; and the rows of its file that were left out, each as a sentence."""

    jobs: tuple[Job, ...]
    skipped: tuple[str, ...] = ()

    @property
    def pods(self) -> int:
        return sum(job.pods for job in self.jobs)


def in_order(jobs: list[Job]) -> tuple[Job, ...]:
    """By arrival, then as given; the first one arrives at the beginning."""
    first = min((job.at for job in jobs), default=0.0)
    moved = jobs if not first else [msgspec.structs.replace(job, at=job.at - first) for job in jobs]
    return tuple(sorted(moved, key=lambda job: job.at))
