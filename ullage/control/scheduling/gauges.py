"""Gauges of a scheduler: queue and GPU states. Brought up to date at each scrape."""

from collections import Counter

from ullage.decide.placement.devices.freshness import STALE_AFTER
from ullage.decide.scheduling.core import SchedulerCore
from ullage.model.device import MILLI_GPU, MOST_DEVICES
from ullage.observe.scheduler_metrics import GpuMetricState, SchedulerMetrics
from ullage.state.device_columns import NodeKindCode
from ullage.state.snapshot import ClusterSnapshot


def show(metrics: SchedulerMetrics, core: SchedulerCore, *, now: float) -> None:
    """Set the gauges to the present state."""
    metrics.show_queue(core.queue.depth())
    metrics.gangs_waiting.set(core.gangs_waiting)
    metrics.leases_held.set(core.leases_held)
    metrics.show_gpus(gpu_states(core.snapshot, now=now))


def gpu_states(snapshot: ClusterSnapshot, *, now: float) -> dict[tuple[GpuMetricState, str], int]:
    """Number of GPUs by state and model."""
    gpus, counts = snapshot.columns.gpus, Counter[tuple[GpuMetricState, str]]()
    models = {number: model for model, number in gpus.models.items()}
    for row in snapshot.columns.rows.values():
        stale = gpus.kind[row] == NodeKindCode.LEASED and gpus.reported_at[row] < now - STALE_AFTER
        exists, healthy = gpus.exists.item(row), gpus.healthy.item(row)
        free, model = gpus.free[row].tolist(), gpus.model[row].tolist()
        for place in range(MOST_DEVICES):
            if exists >> place & 1:
                state = _state(stale, bool(healthy >> place & 1), free[place])
                counts[state, models.get(model[place], "")] += 1
    return dict(counts)


def _state(stale: bool, healthy: bool, free: int) -> GpuMetricState:
    if stale:
        return GpuMetricState.STALE
    if not healthy:
        return GpuMetricState.UNHEALTHY
    if free >= MILLI_GPU:
        return GpuMetricState.FREE
    return GpuMetricState.PARTLY_USED if free > 0 else GpuMetricState.USED
