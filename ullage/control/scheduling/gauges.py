"""Brings the gauges of a scheduler up to date: what waits, and how the GPUs stand. Asked for when somebody scrapes."""

from collections import Counter

from ullage.control.scheduling.desk import Desk
from ullage.decide.seat.freshness import STALE_AFTER
from ullage.model.device import MILLI_GPU, MOST_DEVICES
from ullage.observe.metrics import GpuState, SchedulerMetrics
from ullage.state.gpus import Kind
from ullage.state.placements import Placements


def show(metrics: SchedulerMetrics, desk: Desk, *, now: float) -> None:
    """As things are now."""
    metrics.show_queue(desk.queue.depth())
    metrics.gangs_waiting.set(desk.gangs_waiting)
    metrics.leases_held.set(desk.leases_held)
    metrics.show_gpus(gpu_states(desk.placements, now=now))


def gpu_states(placements: Placements, *, now: float) -> dict[tuple[GpuState, str], int]:
    """How many GPUs of each model are in each state."""
    gpus, counts = placements.columns.gpus, Counter[tuple[GpuState, str]]()
    models = {number: model for model, number in gpus.models.items()}
    for row in placements.columns.rows.values():
        stale = gpus.kind[row] == Kind.LEASED and gpus.reported_at[row] < now - STALE_AFTER
        exists, healthy = gpus.exists.item(row), gpus.healthy.item(row)
        free, model = gpus.free[row].tolist(), gpus.model[row].tolist()
        for place in range(MOST_DEVICES):
            if exists >> place & 1:
                state = _state(stale, bool(healthy >> place & 1), free[place])
                counts[state, models.get(model[place], "")] += 1
    return dict(counts)


def _state(stale: bool, healthy: bool, free: int) -> GpuState:
    if stale:
        return GpuState.STALE
    if not healthy:
        return GpuState.UNHEALTHY
    if free >= MILLI_GPU:
        return GpuState.FREE
    return GpuState.PARTLY_USED if free > 0 else GpuState.USED
