"""Spans sent by the OpenTelemetry SDK: OTLP over HTTP, in batches, from a thread of its own.

Needs the extra `otel`; imported only where an endpoint is set. A collector that does not answer costs spans, never
placements: the queue is bounded and what does not fit is dropped.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import structlog

from ullage import __version__
from ullage.clock import WallClock
from ullage.errors import UserError
from ullage.observe.once import OnceLog
from ullage.observe.traces import Attributes, PlacementSpan, PlacementStep, PlacementTracer

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_log = structlog.get_logger("traces")

TRACES_PATH = "/v1/traces"
EXPORT_SECONDS = 5.0
"""Longest time for one batch."""
FLUSH_SECONDS = 2.0
"""Longest wait for the last batch when the process ends."""
QUEUE = 2048
"""Spans that wait to be sent. More are dropped."""


def traces_url(endpoint: str, setting: str) -> str:
    """Address that spans are posted to: an endpoint without a path gets that of OTLP. Raises UserError."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"{setting}: {endpoint!r} is not a URL such as http://collector.monitoring:4318")
    path = TRACES_PATH if parts.path in ("", "/") else parts.path
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


class OtelTracer(PlacementTracer):
    """Tracer of one process. `close` sends what is left."""

    def __init__(self, url: str, *, service: str, instance: str, fraction: float = 1.0) -> None:
        """Traces `fraction` of all placements. Raises UserError if the SDK is not installed."""
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
        except ImportError as error:
            raise UserError(f"traces need the extra `otel` (pip install 'ullage[otel]'): {error}") from error
        named = {"service.name": service, "service.instance.id": instance, "service.version": __version__}
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(fraction)), resource=Resource.create(named), shutdown_on_exit=False
        )
        _log_seldom()
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=EXPORT_SECONDS)
        self._provider.add_span_processor(
            BatchSpanProcessor(
                self._exporter, max_queue_size=QUEUE, schedule_delay_millis=1000, export_timeout_millis=5000
            )
        )
        self._tracer = self._provider.get_tracer("ullage", __version__)

    @contextmanager
    def placement(self, attributes: Attributes, decide_seconds: float) -> Iterator[PlacementSpan]:
        now = time.time_ns()
        began = now - round(decide_seconds * 1e9)
        with self._tracer.start_as_current_span("placement", start_time=began, attributes=dict(attributes)) as span:
            self._tracer.start_span(PlacementStep.DECIDE.value, start_time=began).end(now)
            yield _OtelSpan(span)

    @contextmanager
    def step(self, name: PlacementStep, attributes: Attributes) -> Iterator[None]:
        with self._tracer.start_as_current_span(name.value, attributes=dict(attributes)):
            yield

    def close(self) -> None:
        """Send what is left, for about FLUSH_SECONDS at most. Blocks."""
        # The SDK's own limit of time is between two batches: with a collector that is away it would take far longer.
        _within(FLUSH_SECONDS, self._provider.force_flush)
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
        _within(1.0, self._provider.shutdown)


def _within(seconds: float, do: Callable[[], object]) -> None:
    """Do something, and go on without its end after so many seconds."""
    doing = threading.Thread(target=do, daemon=True, name="traces")
    doing.start()
    doing.join(seconds)


class _SeldomLog(logging.Handler):
    """Log of the SDK in ours: it complains of every batch that a collector does not take."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._once = OnceLog(_log)

    def emit(self, record: logging.LogRecord) -> None:
        self._once.warning("traces are lost", record.msg, now=WallClock().now(), detail=record.getMessage())


def _log_seldom() -> None:
    logger = logging.getLogger("opentelemetry")
    logger.propagate = False
    logger.handlers = [_SeldomLog()]


class _OtelSpan:
    def __init__(self, span: "Span") -> None:
        self._span = span

    def failed(self, reason: str, detail: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_attribute("ullage.reason", reason)
        self._span.set_status(Status(StatusCode.ERROR, detail))
