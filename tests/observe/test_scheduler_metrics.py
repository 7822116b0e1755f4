"""Metrics: what is counted is what is scraped, and every one of them is explained."""

from collections.abc import Mapping

import pytest
from prometheus_client import CollectorRegistry

from ullage.decide.leases.release import ReleaseReason
from ullage.model.outcomes import BindFailure
from ullage.model.verdict import Reason
from ullage.observe.events import EventWriteResult
from ullage.observe.scheduler_metrics import (
    METRICS,
    AttemptResult,
    BindResult,
    GangResult,
    GpuMetricState,
    MetricType,
    SchedulerMetrics,
    metrics_page,
)
from ullage.observe.vm_metrics import VM_METRICS
from ullage.state.queue import QueueState

Labels = Mapping[str, str]


@pytest.fixture
def metrics() -> SchedulerMetrics:
    return SchedulerMetrics(CollectorRegistry())


def value(metrics: SchedulerMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_attempts_are_counted_by_result_and_reason(metrics: SchedulerMetrics) -> None:
    for _ in range(2):
        metrics.attempt(AttemptResult.REFUSED, Reason.TOO_FEW_GPUS)
    metrics.attempt(AttemptResult.SETBACK, BindFailure.GPU_TAKEN)
    assert value(metrics, "ullage_scheduler_attempts_total", result="refused", reason="TooFewGpus") == 2
    assert value(metrics, "ullage_scheduler_attempts_total", result="setback", reason="GpuTaken") == 1


def test_holds_swept_and_events_are_counted_by_their_words(metrics: SchedulerMetrics) -> None:
    metrics.swept(ReleaseReason.POD_GONE)
    metrics.event(EventWriteResult.DROPPED)
    assert value(metrics, "ullage_gpu_leases_swept_total", why="PodGone") == 1
    assert value(metrics, "ullage_events_total", fate="dropped") == 1


def test_times_are_kept_by_outcome(metrics: SchedulerMetrics) -> None:
    metrics.bind_seconds[BindResult.PLACED].observe(0.004)
    metrics.gang_wait[GangResult.TIMED_OUT].observe(100)
    metrics.queue_wait.observe(0.02)
    metrics.decision_seconds.observe(0.0002)
    assert value(metrics, "ullage_scheduler_bind_seconds_bucket", outcome="placed", le="0.005") == 1
    assert value(metrics, "ullage_scheduler_bind_seconds_bucket", outcome="placed", le="0.002") == 0
    assert value(metrics, "ullage_scheduler_gang_wait_seconds_sum", outcome="timed-out") == 100
    assert value(metrics, "ullage_scheduler_queue_wait_seconds_count") == 1
    assert value(metrics, "ullage_scheduler_decision_seconds_count") == 1


def test_a_queue_is_shown_as_it_is(metrics: SchedulerMetrics) -> None:
    metrics.show_queue({QueueState.ACTIVE: 3, QueueState.ASLEEP: 1})
    metrics.show_queue({QueueState.ACTIVE: 2, QueueState.ASLEEP: 0})
    assert value(metrics, "ullage_scheduler_queue_pods", place="active") == 2
    assert value(metrics, "ullage_scheduler_queue_pods", place="asleep") == 0


def test_a_model_that_is_gone_is_no_longer_shown(metrics: SchedulerMetrics) -> None:
    metrics.show_gpus({(GpuMetricState.FREE, "H100"): 8, (GpuMetricState.USED, "A100"): 4})
    metrics.show_gpus({(GpuMetricState.FREE, "H100"): 7})
    assert value(metrics, "ullage_gpus", state="free", model="H100") == 7
    assert value(metrics, "ullage_gpus", state="used", model="A100") is None


def test_two_processes_in_one_do_not_share_counts() -> None:
    one, other = SchedulerMetrics(CollectorRegistry()), SchedulerMetrics(CollectorRegistry())
    one.preemptions.inc()
    assert value(one, "ullage_scheduler_preempted_pods_total") == 1
    assert value(other, "ullage_scheduler_preempted_pods_total") == 0


def test_the_list_is_all_there_is_and_each_entry_is_on_the_page(metrics: SchedulerMetrics) -> None:
    served = {family.name: family for family in metrics.registry.collect()}
    listed = (*METRICS, *VM_METRICS)
    assert sorted(served) == sorted(metric.name for metric in listed)
    page = metrics_page(VM_METRICS)
    for metric in listed:
        assert (served[metric.name].type, served[metric.name].documentation) == (metric.kind.value, metric.help)
        name = f"{metric.name}_total" if metric.kind is MetricType.COUNTER else metric.name
        assert f"| `{name}` | {metric.kind.value} |" in page
