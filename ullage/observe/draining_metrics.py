"""The metrics of draining: one list with what each means, and the instruments made from it."""

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ullage.observe.scheduler_metrics import Metric, MetricType

SCALED_DOWN = Metric(
    "ullage_scaled_down_nodes",
    MetricType.COUNTER,
    "Nodes that were removed, or emptied and left to their owner, by why: Empty, Underutilized, Unready.",
    ("reason",),
)
SCALED_DOWN_GPU = Metric(
    "ullage_scaled_down_gpu_nodes",
    MetricType.COUNTER,
    "Of them, nodes with GPUs, by why and by the GPU's model.",
    ("reason", "model"),
)
FAILED = Metric(
    "ullage_failed_scale_downs",
    MetricType.COUNTER,
    "Removals that were given up, by why (docs/draining.md).",
    ("reason",),
)
DURATION = Metric(
    "ullage_function_duration_seconds",
    MetricType.HISTOGRAM,
    "How long it took: PlanDrain; RemoveEmptyNode and RemoveDrainedNode from taint to end, however it ended.",
    ("function",),
    buckets=(0.001, 0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)
UNNEEDED = Metric("ullage_unneeded_nodes", MetricType.GAUGE, "Nodes that could go together now, whoever's time it is.")
UNREMOVABLE = Metric(
    "ullage_unremovable_nodes",
    MetricType.GAUGE,
    "Nodes that stay for now by why (docs/draining.md), candidates that wait for their time among them.",
    ("reason",),
)
EVICTIONS = Metric(
    "ullage_evictions",
    MetricType.COUNTER,
    "Pods asked to leave their node by result: Evicted, EvictionRefused, PodsRemain, ApiFailed.",
    ("result",),
)
PENDING = Metric(
    "ullage_pending_node_deletions", MetricType.GAUGE, "Nodes being removed by kind: empty, drained.", ("kind",)
)
THROTTLED = Metric(
    "ullage_scale_down_throttled", MetricType.GAUGE, "1 while a node's time has come and the limits let none go."
)

DRAIN_METRICS: Sequence[Metric] = (
    SCALED_DOWN,
    SCALED_DOWN_GPU,
    FAILED,
    DURATION,
    UNNEEDED,
    UNREMOVABLE,
    EVICTIONS,
    PENDING,
    THROTTLED,
)


class DrainMetrics:
    """The instruments of one process, in its registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._scaled_down = Counter(SCALED_DOWN.name, SCALED_DOWN.help, SCALED_DOWN.labels, registry=registry)
        self._scaled_down_gpu = Counter(
            SCALED_DOWN_GPU.name, SCALED_DOWN_GPU.help, SCALED_DOWN_GPU.labels, registry=registry
        )
        self._failed = Counter(FAILED.name, FAILED.help, FAILED.labels, registry=registry)
        self._duration = Histogram(
            DURATION.name, DURATION.help, DURATION.labels, buckets=DURATION.buckets, registry=registry
        )
        self._unneeded = Gauge(UNNEEDED.name, UNNEEDED.help, registry=registry)
        self._unremovable = Gauge(UNREMOVABLE.name, UNREMOVABLE.help, UNREMOVABLE.labels, registry=registry)
        self._evictions = Counter(EVICTIONS.name, EVICTIONS.help, EVICTIONS.labels, registry=registry)
        self._pending = Gauge(PENDING.name, PENDING.help, PENDING.labels, registry=registry)
        self._throttled = Gauge(THROTTLED.name, THROTTLED.help, registry=registry)

    def took(self, function: str, seconds: float) -> None:
        self._duration.labels(function).observe(seconds)

    def removed(self, reason: str, gpu_model: str) -> None:
        """A node is gone. `gpu_model` is empty where it had no GPUs."""
        self._scaled_down.labels(reason).inc()
        if gpu_model:
            self._scaled_down_gpu.labels(reason, gpu_model).inc()

    def failed(self, reason: str) -> None:
        self._failed.labels(reason).inc()

    def eviction(self, result: str) -> None:
        self._evictions.labels(result).inc()

    def nodes(self, *, unneeded: int, unremovable: Mapping[str, int], throttled: bool) -> None:
        """Show the node counts of the last drain plan."""
        self._unneeded.set(unneeded)
        self._unremovable.clear()
        for reason, count in unremovable.items():
            self._unremovable.labels(reason).set(count)
        self._throttled.set(throttled)

    def pending(self, *, empty: int, drained: int) -> None:
        self._pending.labels("empty").set(empty)
        self._pending.labels("drained").set(drained)
