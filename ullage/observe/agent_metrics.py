"""Metrics of the node agent: one list with descriptions, and the instruments made from it.

Each agent reports the GPUs of its own node, so a GPU is named by its id. The scraper knows the node.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ullage.observe.scheduler_metrics import Metric, MetricType

AGENT_GPUS = Metric(
    "ullage_agent_gpus", MetricType.GAUGE, "GPUs of the node by health (Healthy, Unhealthy, Unknown).", ("health",)
)
UTILISATION = Metric(
    "ullage_agent_gpu_utilisation_percent", MetricType.GAUGE, "How busy a GPU is, where it says so.", ("gpu",)
)
MEMORY_USED = Metric("ullage_agent_gpu_memory_used_bytes", MetricType.GAUGE, "Memory in use on a GPU.", ("gpu",))
IDLE = Metric(
    "ullage_agent_gpu_idle_seconds",
    MetricType.GAUGE,
    "For GPUs that pods hold: how long the same pods have held it without computing anything.",
    ("gpu",),
)
ECC = Metric(
    "ullage_agent_gpu_uncorrected_errors",
    MetricType.GAUGE,
    "Uncorrected ECC errors of a GPU, since the driver was loaded (volatile) and ever (aggregate).",
    ("gpu", "window"),
)
XIDS = Metric("ullage_agent_xids", MetricType.COUNTER, "Xids the driver reported, those of faulty programs included.",
              ("gpu", "xid"))  # fmt: skip
UNLEASED_PROCESSES = Metric(
    "ullage_agent_stray_processes",
    MetricType.GAUGE,
    "Processes on a GPU that was not given to their pod, or that are in no pod.",
    ("gpu",),
)
LOOK_SECONDS = Metric(
    "ullage_agent_look_seconds",
    MetricType.HISTOGRAM,
    "Time to look at all GPUs once.",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
)
REPORTS = Metric(
    "ullage_agent_reports",
    MetricType.COUNTER,
    "Reports of the node's GPUs by outcome (written, failed).",
    ("outcome",),
)

AGENT_METRICS: Sequence[Metric] = (
    AGENT_GPUS,
    UTILISATION,
    MEMORY_USED,
    IDLE,
    ECC,
    XIDS,
    UNLEASED_PROCESSES,
    LOOK_SECONDS,
    REPORTS,
)


class ReportOutcome(StrEnum):
    WRITTEN = "written"
    FAILED = "failed"


Reading = Mapping[tuple[str, ...], float]
"""Labels to value."""


class AgentMetrics:
    """The instruments. Gauges of GPUs are shown whole: what is not in the latest reading is no longer shown."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.look_seconds = Histogram(
            LOOK_SECONDS.name, LOOK_SECONDS.help, registry=registry, buckets=LOOK_SECONDS.buckets
        )
        gauges = (AGENT_GPUS, UTILISATION, MEMORY_USED, IDLE, ECC, UNLEASED_PROCESSES)
        self._gauges = {one.name: Gauge(one.name, one.help, one.labels, registry=registry) for one in gauges}
        self._shown: dict[str, frozenset[tuple[str, ...]]] = {}
        self._xids = Counter(XIDS.name, XIDS.help, XIDS.labels, registry=registry)
        self._reports = Counter(REPORTS.name, REPORTS.help, REPORTS.labels, registry=registry)

    def show(self, metric: Metric, reading: Reading) -> None:
        """Set the gauge to this reading; series that are not in it are removed."""
        gauge = self._gauges[metric.name]
        for gone in sorted(self._shown.get(metric.name, frozenset()) - reading.keys()):
            gauge.remove(*gone)
        for labels, value in reading.items():
            gauge.labels(*labels).set(value)
        self._shown[metric.name] = frozenset(reading)

    def xid(self, gpu: str, code: int) -> None:
        """The driver reported one."""
        self._xids.labels(gpu, str(code)).inc()

    def reported(self, outcome: ReportOutcome) -> None:
        """A report was written, or not."""
        self._reports.labels(outcome.value).inc()
