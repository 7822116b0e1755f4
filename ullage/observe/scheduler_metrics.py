"""The metrics of the scheduler: one list with what each means, and the instruments made from it.

The page in the documentation is printed from the list. Labels are closed lists or things a cluster has few of (GPU
models); a pod's name is never one. Instruments of one process share a registry of their own, never the library's.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ullage.observe.metric import Metric as Metric  # also for those who import it from here
from ullage.observe.metric import MetricType as MetricType
from ullage.observe.vm_metrics import VmSystemMetrics

E = TypeVar("E", bound=StrEnum)


_WAITS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
_WORK = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_WRITES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

QUEUE_PODS = Metric(
    "ullage_scheduler_queue_pods",
    MetricType.GAUGE,
    "Pods in the scheduling queue by where they are: active, backing-off, asleep, out.",
    ("place",),
)
QUEUE_WAIT = Metric(
    "ullage_scheduler_queue_wait_seconds",
    MetricType.HISTOGRAM,
    "From a pod's first sight to its bind, for pods that were bound.",
    buckets=_WAITS,
)
ATTEMPTS = Metric(
    "ullage_scheduler_attempts",
    MetricType.COUNTER,
    "Attempts to place a pod by result (placed, refused, setback, error) and reason: of a refused pod the one most "
    "nodes gave, of a setback or error what happened between decision and bind, of a placed pod Fits.",
    ("result", "reason"),
)
DECISION_SECONDS = Metric(
    "ullage_scheduler_decision_seconds",
    MetricType.HISTOGRAM,
    "Time to decide on one pod, without any write.",
    buckets=_WORK,
)
BIND_SECONDS = Metric(
    "ullage_scheduler_bind_seconds",
    MetricType.HISTOGRAM,
    "Time from decision to answered bind, leases included, by outcome (placed, not-placed).",
    ("outcome",),
    _WRITES,
)
PREEMPTIONS = Metric(
    "ullage_scheduler_preempted_pods",
    MetricType.COUNTER,
    "Pods deleted to make room for pods of higher priority.",
)
GPUS = Metric(
    "ullage_gpus",
    MetricType.GAUGE,
    "GPUs by state (free, partly-used, used, unhealthy, stale) and model.",
    ("state", "model"),
)
LEASES_HELD = Metric("ullage_gpu_leases", MetricType.GAUGE, "Leases of GPUs there are.")
LEASES_SWEPT = Metric(
    "ullage_gpu_leases_swept",
    MetricType.COUNTER,
    "Holds on GPUs freed by the sweeper, by why they were over.",
    ("why",),
)
LEASES_RESTORED = Metric(
    "ullage_gpu_leases_restored",
    MetricType.COUNTER,
    "Leases of running pods' GPUs made again after somebody had deleted them.",
)
RESERVATIONS_RESTORED = Metric(
    "ullage_gpu_reservations_restored",
    MetricType.COUNTER,
    "ResourceClaims that withhold leased GPUs from kube-scheduler, made again while the Lease stood.",
)
CLOCK_SKEW = Metric(
    "ullage_clock_skew_seconds",
    MetricType.GAUGE,
    "Seconds by which the clock that differs most is ahead of this scheduler's (below 0: behind): of an agent, or of "
    "another scheduler. 0 where none differs by more than 15 s.",
    ("of",),
)
GANGS_WAITING = Metric(
    "ullage_scheduler_gangs_waiting", MetricType.GAUGE, "Gangs that wait for members or for room for all of them."
)
GANG_WAIT = Metric(
    "ullage_scheduler_gang_wait_seconds",
    MetricType.HISTOGRAM,
    "From a gang's first member to its end by outcome (placed, timed-out).",
    ("outcome",),
    _WAITS,
)
EVENTS = Metric(
    "ullage_events",
    MetricType.COUNTER,
    "Kubernetes Events by fate (created, repeated, dropped, failed).",
    ("fate",),
)

METRICS: Sequence[Metric] = (
    QUEUE_PODS,
    QUEUE_WAIT,
    ATTEMPTS,
    DECISION_SECONDS,
    BIND_SECONDS,
    PREEMPTIONS,
    GPUS,
    LEASES_HELD,
    LEASES_SWEPT,
    LEASES_RESTORED,
    RESERVATIONS_RESTORED,
    CLOCK_SKEW,
    GANGS_WAITING,
    GANG_WAIT,
    EVENTS,
)


class ClockOf(StrEnum):
    """Component whose clock is compared with ours."""

    AGENT = "agent"
    SCHEDULER = "scheduler"


class AttemptResult(StrEnum):
    """Result of one attempt to place a pod. Closed list: it labels the metric."""

    PLACED = "placed"
    REFUSED = "refused"
    SETBACK = "setback"
    """Something changed between decision and bind."""
    ERROR = "error"
    """The API server failed, or turned a write down."""


class BindResult(StrEnum):
    PLACED = "placed"
    NOT_PLACED = "not-placed"


class GangResult(StrEnum):
    PLACED = "placed"
    TIMED_OUT = "timed-out"


class GpuMetricState(StrEnum):
    FREE = "free"
    PARTLY_USED = "partly-used"
    USED = "used"
    UNHEALTHY = "unhealthy"
    STALE = "stale"
    """The inventory of its node is too old for placements."""


class SchedulerMetrics:
    """Instruments, each bound to its labels as far as they are known beforehand.

    `labels()` of the library looks a child up under a lock by a tuple of strings; on the hot path that is most of the
    cost. So children are kept here, by the label values themselves.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.vms = VmSystemMetrics(registry)
        self.queue_wait = _histogram(QUEUE_WAIT, registry)
        self.decision_seconds = _histogram(DECISION_SECONDS, registry)
        self.preemptions = _counter(PREEMPTIONS, registry)
        self.leases_held = _gauge(LEASES_HELD, registry)
        self.gangs_waiting = _gauge(GANGS_WAITING, registry)
        bind, gang = _histogram(BIND_SECONDS, registry), _histogram(GANG_WAIT, registry)
        self.bind_seconds: Mapping[BindResult, Histogram] = {one: bind.labels(one.value) for one in BindResult}
        self.gang_wait: Mapping[GangResult, Histogram] = {one: gang.labels(one.value) for one in GangResult}
        self._queue = _gauge(QUEUE_PODS, registry)
        self._attempts = _counter(ATTEMPTS, registry)
        self._gpus = _gauge(GPUS, registry)
        self._swept = _counter(LEASES_SWEPT, registry)
        self.leases_restored = _counter(LEASES_RESTORED, registry)
        self.reservations_restored = _counter(RESERVATIONS_RESTORED, registry)
        self._clock_skew = _gauge(CLOCK_SKEW, registry)
        for one in ClockOf:
            self._clock_skew.labels(one.value).set(0.0)
        self._events = _counter(EVENTS, registry)
        self._bound: dict[tuple[Counter, str, str], Counter] = {}
        self._shown: set[tuple[GpuMetricState, str]] = set()

    def attempt(self, result: AttemptResult, reason: str) -> None:
        """Count one scheduling attempt of a pod."""
        self._child(self._attempts, result, reason).inc()

    def swept(self, why: StrEnum) -> None:
        """A hold was freed."""
        self._child(self._swept, why).inc()

    def show_clock_skew(self, of: ClockOf, ahead: float) -> None:
        """Show by how many seconds the clock that differs most is ahead of ours."""
        self._clock_skew.labels(of.value).set(ahead)

    def event(self, fate: StrEnum) -> None:
        """Count one result of an Event write."""
        self._child(self._events, fate).inc()

    def show_queue(self, depth: Mapping[E, int]) -> None:
        """Show the number of pending pods in each part of the queue."""
        for place, pods in depth.items():
            self._queue.labels(place.value).set(pods)

    def show_gpus(self, counts: Mapping[tuple[GpuMetricState, str], int]) -> None:
        """Show the number of GPUs by state and model. Series of models that are gone are removed."""
        for state, model in sorted(self._shown - counts.keys()):
            self._gpus.remove(state.value, model)
        for (state, model), number in counts.items():
            self._gpus.labels(state.value, model).set(number)
        self._shown = set(counts)

    def _child(self, counter: Counter, first: str, second: str = "") -> Counter:
        words = (counter, first, second)
        child = self._bound.get(words)
        if child is None:
            labels = (str(first), str(second)) if second else (str(first),)
            child = self._bound[words] = counter.labels(*labels)
        return child


def _counter(metric: Metric, registry: CollectorRegistry) -> Counter:
    return Counter(metric.name, metric.help, metric.labels, registry=registry)


def _gauge(metric: Metric, registry: CollectorRegistry) -> Gauge:
    return Gauge(metric.name, metric.help, metric.labels, registry=registry)


def _histogram(metric: Metric, registry: CollectorRegistry) -> Histogram:
    return Histogram(metric.name, metric.help, metric.labels, registry=registry, buckets=metric.buckets)


def metrics_page(*others: Sequence[Metric]) -> str:
    """The page of the documentation: the scheduler's metrics, then those of other processes."""
    lines = [
        "# Metrics",
        "",
        "Generated by `make format`; do not edit. Served at `/metrics`.",
        "",
        "| metric | kind | split by | meaning |",
        "|---|---|---|---|",
    ]
    for metric in (*METRICS, *(one for metrics in others for one in metrics)):
        name = f"{metric.name}_total" if metric.kind is MetricType.COUNTER else metric.name
        split = ", ".join(f"`{label}`" for label in metric.labels) or "-"
        lines.append(f"| `{name}` | {metric.kind.value} | {split} | {metric.help} |")
    return "\n".join(lines) + "\n"
