"""The metrics of the webhook: what was asked, how it was answered, how long that took, and until when it is served."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ullage.observe.scheduler_metrics import Metric, MetricType

REVIEWS = Metric(
    "ullage_admission_reviews",
    MetricType.COUNTER,
    "Reviews by path (mutate, validate) and outcome: Patched, AsItIs, or why they were refused.",
    ("path", "outcome"),
)
REVIEW_SECONDS = Metric(
    "ullage_admission_review_seconds",
    MetricType.HISTOGRAM,
    "Time from the whole review read to the answer made.",
    ("path",),
    (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
)
CERTIFICATE_END = Metric(
    "ullage_admission_certificate_expiry_seconds",
    MetricType.GAUGE,
    "When the certificate served now ends, in seconds since the epoch.",
)

ADMISSION_METRICS: Sequence[Metric] = (REVIEWS, REVIEW_SECONDS, CERTIFICATE_END)


class AdmissionMetrics:
    """The instruments."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.certificate_end = Gauge(CERTIFICATE_END.name, CERTIFICATE_END.help, registry=registry)
        self._reviews = Counter(REVIEWS.name, REVIEWS.help, REVIEWS.labels, registry=registry)
        self._seconds = Histogram(
            REVIEW_SECONDS.name,
            REVIEW_SECONDS.help,
            REVIEW_SECONDS.labels,
            registry=registry,
            buckets=REVIEW_SECONDS.buckets,
        )

    def reviewed(self, path: str, outcome: str, seconds: float) -> None:
        """Count one answered review."""
        self._reviews.labels(path, outcome).inc()
        self._seconds.labels(path).observe(seconds)
