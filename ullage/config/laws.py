"""What must hold between settings."""

from collections.abc import Iterator

from ullage.config.settings import Settings


def broken_laws(settings: Settings) -> Iterator[tuple[str, str]]:
    """The path of a setting and what is wrong with it beside others."""
    scheduling, draining = settings.scheduling, settings.draining
    if scheduling.longest_backoff < scheduling.first_backoff:
        yield "scheduling.longestBackoff", "must not be shorter than scheduling.firstBackoff"
    if draining.max_drain_parallelism >= draining.max_scale_down_parallelism:
        yield (
            "draining.maxDrainParallelism",
            f"is {draining.max_drain_parallelism}; allowed: less than draining.maxScaleDownParallelism "
            f"({draining.max_scale_down_parallelism}), so that drains never hold up empty nodes",
        )
