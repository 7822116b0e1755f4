"""Metrics of decisions: what became of an attempt, and why."""

from collections.abc import Sequence

import pytest
from prometheus_client import CollectorRegistry

from ullage.clock import WallClock
from ullage.control.scheduling.reporter import SchedulerReporter
from ullage.deploy.monitoring import ALERTS
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindPod
from ullage.model.outcomes import BindFailure, PodNotBound
from ullage.observe.events import EventRecorder, EventSeries
from ullage.observe.scheduler_metrics import AttemptResult, SchedulerMetrics

CLOCK = WallClock()
BIND = BindPod(pod=ObjectKey("n", "p"), uid="u", resource_version="1", node="a", why="it fits")


class NoWriter:
    async def create(self, record: EventSeries) -> None:
        raise AssertionError(f"a pod that was not bound gets no Event here: {record}")

    async def repeat(self, record: EventSeries) -> None:
        raise AssertionError(f"a pod that was not bound gets no Event here: {record}")


@pytest.mark.parametrize(
    ("failures", "result"),
    [
        pytest.param(
            (BindFailure.FORBIDDEN, BindFailure.REFUSED, BindFailure.API_FAILED), "error", id="the-api-server"
        ),
        pytest.param((BindFailure.GPU_TAKEN, BindFailure.POD_CHANGED, BindFailure.POD_GONE), "setback", id="lost-race"),
        pytest.param((BindFailure.VOLUME_NOT_READY, BindFailure.CLAIM_CHANGED), "setback", id="volume-or-claim"),
        pytest.param((BindFailure.GANG_FELL_APART,), "setback", id="another-member"),
    ],
)
def test_a_bind_that_failed_is_a_setback_or_an_error(failures: Sequence[BindFailure], result: str) -> None:
    metrics = SchedulerMetrics(CollectorRegistry())
    reporter = SchedulerReporter(EventRecorder(NoWriter(), CLOCK, instance="s"), metrics, CLOCK)
    for one in failures:
        reporter.placing_ended(PodNotBound(BIND, one, "so it was"), took=0.1, waited=1.0)
    counted = {
        (sample.labels["result"], sample.labels["reason"])
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "ullage_scheduler_attempts_total"
    }
    assert counted == {(result, str(one)) for one in failures}


def test_the_alert_on_errors_asks_for_a_result_that_is_counted() -> None:
    (alert,) = [one for one in ALERTS if one.name == "UllageErrors"]
    assert f'result="{AttemptResult.ERROR.value}"' in alert.expression
