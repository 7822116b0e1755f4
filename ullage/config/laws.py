"""Rules between settings. Pure."""

from collections.abc import Iterator

from ullage.config.settings import Settings

LEAST_HISTORY = 1 << 20
"""Bytes of the dashboard's history, at least."""


def broken_laws(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the path of each setting that contradicts another one, and the problem."""
    scheduling, draining, karpenter = settings.scheduling, settings.draining, settings.karpenter
    if not scheduling.policies():
        yield "scheduling.profiles", "leaves no scheduler that is served; name one, with its policy"
    if scheduling.max_backoff < scheduling.initial_backoff:
        yield "scheduling.maxBackoff", "must not be shorter than scheduling.initialBackoff"
    drains = draining.max_drain_parallelism
    if drains is not None and drains > draining.max_scale_down_parallelism:
        yield (
            "draining.maxDrainParallelism",
            f"is {drains}; allowed: at most draining.maxScaleDownParallelism ({draining.max_scale_down_parallelism})",
        )
    if karpenter.enabled and not karpenter.node_pools:
        yield "karpenter.nodePools", "is empty, and karpenter.enabled is true; name at least one NodePool and its GPUs"
    if karpenter.max_backoff < karpenter.initial_backoff:
        yield "karpenter.maxBackoff", "must not be shorter than karpenter.initialBackoff"
    if settings.dashboard.history_max_size < LEAST_HISTORY:
        yield "dashboard.historyMaxSize", f"is {settings.dashboard.history_max_size}; allowed: at least 1Mi"
    if settings.vmagent.memory_unit == 0:
        yield "vmagent.memoryUnit", "is 0; allowed: a multiple of the VMs' memory slot size"
    if not 0 < settings.vms.score_peak < 1:
        yield "vms.scorePeak", f"is {settings.vms.score_peak}; allowed: a number above 0 and below 1"
    if settings.vms.agent_account.count("/") != 1 or "" in settings.vms.agent_account.split("/"):
        yield "vms.agentAccount", f"is {settings.vms.agent_account!r}; allowed: NAMESPACE/NAME"
