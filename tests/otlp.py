"""A stand-in for whoever takes traces: a real HTTP server that reads OTLP, or refuses it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Told:
    """One span as it came."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    links: tuple[tuple[str, str], ...]
    """Trace and span of each."""
    attributes: dict[str, Any] = field(hash=False)
    start_ns: int
    end_ns: int
    events: int
    failed: bool


class Receiver:
    """What came so far."""

    def __init__(self) -> None:
        self.spans: list[Told] = []
        self.requests = 0
        self.refuse = False
        self.url = ""

    def of(self, trace: str) -> list[Told]:
        """The spans of a trace, by their begin."""
        return sorted((one for one in self.spans if one.trace == trace), key=lambda one: one.start_ns)

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            of = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [_told(of["service.name"], span) for span in scope.spans]


def _told(service: str, span: Any) -> Told:
    return Told(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        {one.key: one.value.string_value or one.value.int_value for one in span.attributes},
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        len(span.events),
        span.status.code == 2,
    )


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver on a free port."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests += 1
            if receiver.refuse or self.path != "/v1/traces":
                self.send_response(500)
            else:
                packed = self.headers.get("Content-Encoding") == "gzip"
                receiver.take(gzip.decompress(body) if packed else body)
                self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
