"""A collector of traces on loopback: takes OTLP over HTTP, as an OpenTelemetry collector does, and keeps the spans."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class Span:
    """A span as it was received."""

    name: str
    trace: str
    id: str
    parent: str
    began: int
    ended: int
    attributes: Mapping[str, str | int]
    error: str
    resource: Mapping[str, str | int]


@dataclass
class Collector:
    """Spans received so far."""

    url: str = ""
    spans: list[Span] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)

    def traces(self) -> list[dict[str, list[Span]]]:
        """Spans by name, one mapping for each trace whose root has come, in the order of their beginning."""
        roots = sorted((one for one in self.spans if one.name == "placement"), key=lambda one: one.began)
        found = []
        for root in roots:
            named: dict[str, list[Span]] = {}
            for one in sorted((one for one in self.spans if one.trace == root.trace), key=lambda one: one.began):
                named.setdefault(one.name, []).append(one)
            found.append(named)
        return found

    def take(self, body: bytes) -> None:
        """Keep the spans of one request."""
        for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _values(sent.resource.attributes)
            for scope in sent.scope_spans:
                self.spans += [_span(one, resource) for one in scope.spans]


def _values(attributes: Any) -> dict[str, str | int]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def _span(one: Any, resource: Mapping[str, str | int]) -> Span:
    return Span(
        one.name,
        one.trace_id.hex(),
        one.span_id.hex(),
        one.parent_span_id.hex(),
        one.start_time_unix_nano,
        one.end_time_unix_nano,
        _values(one.attributes),
        one.status.message,
        resource,
    )


@contextmanager
def collecting(status: int = 200) -> Iterator[Collector]:
    """A collector at work during the block; with another status it refuses everything."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.paths.add(self.path)
            if status == 200:
                collector.take(body)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
