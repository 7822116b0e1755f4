"""Rules between settings."""

from collections.abc import Iterator

from ullage.config.settings import Settings


def broken_laws(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the path of each setting that contradicts another one, and the problem."""
    scheduling, draining = settings.scheduling, settings.draining
    if scheduling.longest_backoff < scheduling.first_backoff:
        yield "scheduling.longestBackoff", "must not be shorter than scheduling.firstBackoff"
    if draining.max_drain_parallelism > draining.max_scale_down_parallelism:
        yield (
            "draining.maxDrainParallelism",
            f"is {draining.max_drain_parallelism}; allowed: at most draining.maxScaleDownParallelism "
            f"({draining.max_scale_down_parallelism})",
        )
    karpenter = settings.karpenter
    if karpenter.enabled and not karpenter.node_pools:
        yield "karpenter.nodePools", "is empty, and karpenter.enabled is true; name at least one NodePool and its GPUs"
    if karpenter.longest_backoff < karpenter.first_backoff:
        yield "karpenter.longestBackoff", "must not be shorter than karpenter.firstBackoff"
    if settings.vmagent.memory_unit == 0:
        yield "vmagent.memoryUnit", "is 0; allowed: a multiple of the VMs' memory slot size"
