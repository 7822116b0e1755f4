"""Metrics of smart pods: one list with what each means, and the instruments made from it."""

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ullage.model.karpenter import NodeClaimEventType
from ullage.model.karpenter_failure import FailureReason
from ullage.model.lifecycles import IN_FLIGHT, SmartPodState
from ullage.observe.scheduler_metrics import Metric, MetricType

_PROVISION = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 900.0, 1800.0)

CREATED = Metric(
    "tensor_fusion_smart_pods_created", MetricType.COUNTER, "Smart pods created, by pool mapping.", ("pool",)
)
ACTIVE = Metric("tensor_fusion_smart_pods_active", MetricType.GAUGE, "Smart pods there are, by state.", ("state",))
PROVISION_SECONDS = Metric(
    "tensor_fusion_nodeclaim_provision_duration",
    MetricType.HISTOGRAM,
    "Seconds from the creation of a NodeClaim of ours to its Ready condition.",
    buckets=_PROVISION,
)
SUCCESS_RATE = Metric(
    "tensor_fusion_scaling_success_rate",
    MetricType.GAUGE,
    "Requests handed over, of requests handed over or failed since the start; 1 before the first.",
)
REQUESTS = Metric(
    "tensor_fusion_scaling_requests",
    MetricType.COUNTER,
    "Capacity requests that ended, by result (HandedOver, Failed, Expired, Cancelled) and reason of the failure.",
    ("result", "reason"),
)
STATE_SECONDS = Metric(
    "tensor_fusion_smart_pod_state_seconds",
    MetricType.HISTOGRAM,
    "Seconds a request was in a state before it went on.",
    ("state",),
    buckets=_PROVISION,
)
PENDING_SECONDS = Metric(
    "tensor_fusion_smart_pod_oldest_pending_seconds",
    MetricType.GAUGE,
    "Age of the oldest smart pod that has no node yet.",
)
HANDOVER_LOST = Metric(
    "tensor_fusion_handover_lost", MetricType.COUNTER, "Hand-overs whose node was not bound to in time, or was removed."
)
ORPHANS = Metric(
    "tensor_fusion_orphan_nodes",
    MetricType.COUNTER,
    "Nodes that came for a request that was over, opened for the next.",
)
CLAIM_EVENTS = Metric(
    "tensor_fusion_nodeclaim_events", MetricType.COUNTER, "Steps of NodeClaims of ours, by type.", ("type",)
)
CLEANUP_FAILURES = Metric(
    "tensor_fusion_cleanup_failures", MetricType.COUNTER, "Smart pods that could not be deleted in three tries or more."
)
JUMPS = Metric(
    "tensor_fusion_lifecycle_jumps", MetricType.COUNTER, "Changes of state that the lifecycle table has no edge for."
)
UNPROTECTED = Metric(
    "tensor_fusion_nodepool_handover_unprotected",
    MetricType.GAUGE,
    "1 for a mapped NodePool whose nodes are open to rivals before their hand-over.",
    ("nodepool",),
)
INSTALLED = Metric(
    "tensor_fusion_karpenter_installed",
    MetricType.GAUGE,
    "1 if the cluster serves Karpenter's kinds, 0 if it does not.",
)

KARPENTER_METRICS: Sequence[Metric] = (
    CREATED,
    ACTIVE,
    PROVISION_SECONDS,
    SUCCESS_RATE,
    REQUESTS,
    STATE_SECONDS,
    PENDING_SECONDS,
    HANDOVER_LOST,
    ORPHANS,
    CLAIM_EVENTS,
    CLEANUP_FAILURES,
    JUMPS,
    UNPROTECTED,
    INSTALLED,
)


class KarpenterMetrics:
    """The instruments of one process, in its registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._created = Counter(CREATED.name, CREATED.help, CREATED.labels, registry=registry)
        self._active = Gauge(ACTIVE.name, ACTIVE.help, ACTIVE.labels, registry=registry)
        self._provision = _histogram(PROVISION_SECONDS, registry)
        self._rate = Gauge(SUCCESS_RATE.name, SUCCESS_RATE.help, registry=registry)
        self._requests = Counter(REQUESTS.name, REQUESTS.help, REQUESTS.labels, registry=registry)
        self._state = _histogram(STATE_SECONDS, registry)
        self._pending = Gauge(PENDING_SECONDS.name, PENDING_SECONDS.help, registry=registry)
        self._lost = Counter(HANDOVER_LOST.name, HANDOVER_LOST.help, registry=registry)
        self._orphans = Counter(ORPHANS.name, ORPHANS.help, registry=registry)
        self._claims = Counter(CLAIM_EVENTS.name, CLAIM_EVENTS.help, CLAIM_EVENTS.labels, registry=registry)
        self._cleanup = Counter(CLEANUP_FAILURES.name, CLEANUP_FAILURES.help, registry=registry)
        self._jumps = Counter(JUMPS.name, JUMPS.help, registry=registry)
        self._unprotected = Gauge(UNPROTECTED.name, UNPROTECTED.help, UNPROTECTED.labels, registry=registry)
        self._installed = Gauge(INSTALLED.name, INSTALLED.help, registry=registry)
        for kind in NodeClaimEventType:  # a counter that begins with its first event hides that event from `increase`
            self._claims.labels(kind.value)
        self._handed_over = self._failed = 0
        self._rate.set(1.0)

    def created(self, pool: str) -> None:
        self._created.labels(pool).inc()

    def ended(self, result: SmartPodState, reason: FailureReason | None) -> None:
        """Count one request that ended. A cancelled one does not count for or against success."""
        self._requests.labels(result.value, "" if reason is None else reason.value).inc()
        if reason is FailureReason.HANDOVER_LOST:
            self._lost.inc()
        self._handed_over += result is SmartPodState.HANDED_OVER
        self._failed += result in (SmartPodState.FAILED, SmartPodState.EXPIRED)
        if self._handed_over or self._failed:
            self._rate.set(self._handed_over / (self._handed_over + self._failed))

    def state_left(self, state: SmartPodState, seconds: float) -> None:
        self._state.labels(state.value).observe(seconds)

    def claim_event(self, kind: str) -> None:
        self._claims.labels(kind).inc()

    def provisioned(self, seconds: float) -> None:
        self._provision.observe(seconds)

    def orphan_opened(self) -> None:
        self._orphans.inc()

    def cleanup_failed(self) -> None:
        self._cleanup.inc()

    def jumped(self) -> None:
        self._jumps.inc()

    def show(self, states: Mapping[SmartPodState, int], oldest_pending: float) -> None:
        """Show the number of smart pods in each state, and the age of the oldest pending one."""
        for state in IN_FLIGHT:
            self._active.labels(state.value).set(states.get(state, 0))
        self._pending.set(oldest_pending)

    def installed(self, is_served: bool) -> None:
        self._installed.set(is_served)

    def unprotected(self, node_pools: Mapping[str, bool]) -> None:
        """Show for each NodePool whether its nodes are open to other pods."""
        for name, is_open in node_pools.items():
            self._unprotected.labels(name).set(is_open)


def _histogram(metric: Metric, registry: CollectorRegistry) -> Histogram:
    return Histogram(metric.name, metric.help, metric.labels, buckets=metric.buckets, registry=registry)
