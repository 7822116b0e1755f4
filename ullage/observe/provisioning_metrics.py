"""The metrics of the controller: one list with what each means, and the instruments made from it.

Pools are few and named by people, so a provisioner's name is a label.
"""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ullage.observe.scheduler_metrics import Metric, MetricType

NODES = Metric(
    "ullage_pool_nodes",
    MetricType.GAUGE,
    "Nodes and instances of a pool by state: ready, coming, tainted, lost.",
    ("provisioner", "state"),
)
TARGET = Metric("ullage_pool_target_nodes", MetricType.GAUGE, "Nodes a pool is to have.", ("provisioner",))
UTILISATION = Metric(
    "ullage_pool_gpu_utilisation_percent",
    MetricType.GAUGE,
    "GPUs requested or assumed of GPUs there are, tainted and coming nodes included; 0 where there are none.",
    ("provisioner",),
)
BACKED_OFF = Metric(
    "ullage_pool_backed_off", MetricType.GAUGE, "1 while a pool may buy nothing because of a failure.", ("provisioner",)
)
UNMET = Metric("ullage_pool_unmet_pods", MetricType.GAUGE, "Waiting pods that no provisioner can buy a node for.")
BLOCKED = Metric(
    "ullage_pool_blocked_pods",
    MetricType.GAUGE,
    "Of these, pods that a pool may not buy for: in back-off, full, paused or over budget.",
    ("provisioner",),
)
ACTIONS = Metric(
    "ullage_pool_actions",
    MetricType.COUNTER,
    "Actions by kind (Provision, Doom, Spare, Deprovision) and result: Done, or why not.",
    ("action", "result"),
)
BOUGHT = Metric(
    "ullage_pool_instances_bought", MetricType.COUNTER, "Instances that were made, by pool.", ("provisioner",)
)
PLAN_SECONDS = Metric(
    "ullage_pool_plan_seconds",
    MetricType.HISTOGRAM,
    "Time to decide on all pools once, without any call.",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
)

PROVISIONING_METRICS: Sequence[Metric] = (
    NODES,
    TARGET,
    UTILISATION,
    BACKED_OFF,
    UNMET,
    BLOCKED,
    ACTIONS,
    BOUGHT,
    PLAN_SECONDS,
)


class ProvisioningMetrics:
    """The instruments of one process, in its registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._nodes = Gauge(NODES.name, NODES.help, NODES.labels, registry=registry)
        self._target = Gauge(TARGET.name, TARGET.help, TARGET.labels, registry=registry)
        self._utilisation = Gauge(UTILISATION.name, UTILISATION.help, UTILISATION.labels, registry=registry)
        self._backed_off = Gauge(BACKED_OFF.name, BACKED_OFF.help, BACKED_OFF.labels, registry=registry)
        self._unmet = Gauge(UNMET.name, UNMET.help, registry=registry)
        self._blocked = Gauge(BLOCKED.name, BLOCKED.help, BLOCKED.labels, registry=registry)
        self._actions = Counter(ACTIONS.name, ACTIONS.help, ACTIONS.labels, registry=registry)
        self._bought = Counter(BOUGHT.name, BOUGHT.help, BOUGHT.labels, registry=registry)
        self._plan_seconds = Histogram(
            PLAN_SECONDS.name, PLAN_SECONDS.help, buckets=PLAN_SECONDS.buckets, registry=registry
        )

    def forget_others(self, provisioners: Iterable[str]) -> None:
        """Pools that are gone are no longer shown."""
        kept = set(provisioners)
        for gauge in (self._nodes, self._target, self._utilisation, self._backed_off, self._blocked):
            gone = {sample.labels["provisioner"] for family in gauge.collect() for sample in family.samples} - kept
            for name in sorted(gone):
                gauge.remove_by_labels({"provisioner": name})

    def pool(self, name: str, nodes: Mapping[str, int], *, target: int, utilisation: int, backed_off: bool) -> None:
        """Show the state of one pool."""
        for state, count in nodes.items():
            self._nodes.labels(name, state).set(count)
        self._target.labels(name).set(target)
        self._utilisation.labels(name).set(utilisation)
        self._backed_off.labels(name).set(backed_off)

    def unmet(self, pods: int, by_pool: Mapping[str, int]) -> None:
        self._unmet.set(pods)
        for name, blocked in by_pool.items():
            self._blocked.labels(name).set(blocked)

    def action(self, kind: str, result: str) -> None:
        """Count one action that ended."""
        self._actions.labels(kind, result).inc()

    def bought(self, provisioner: str, count: int) -> None:
        self._bought.labels(provisioner).inc(count)

    def planned(self, seconds: float) -> None:
        self._plan_seconds.observe(seconds)
