"""Where spans lie: names that are set beforehand, and what a `traceparent` names."""

from __future__ import annotations

import threading

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags


class Ids(RandomIdGenerator):
    """Random names, except where one is set beforehand: for the span that is begun next in this thread."""

    def __init__(self) -> None:
        self._next = threading.local()

    def preset(self, trace_id: int, span_id: int) -> None:
        """Name the next span of this thread."""
        self._next.ids = (trace_id, span_id)

    def generate_trace_id(self) -> int:
        """As OpenTelemetry asks for it."""
        ids: tuple[int, int] | None = getattr(self._next, "ids", None)
        return ids[0] if ids else super().generate_trace_id()

    def generate_span_id(self) -> int:
        """As OpenTelemetry asks for it; the name that was set holds for one span."""
        ids: tuple[int, int] | None = getattr(self._next, "ids", None)
        self._next.ids = None
        return ids[1] if ids else super().generate_span_id()


def ns(ms: int) -> int:
    """OpenTelemetry's unit."""
    return ms * 1_000_000


def under(traceparent: str) -> Context:
    """Where a span begins that goes on in this trace."""
    return trace.set_span_in_context(NonRecordingSpan(context_of(traceparent)), Context())


def context_of(traceparent: str) -> SpanContext:
    """What a well-formed `traceparent` names."""
    _, trace_id, span_id, flags = traceparent.split("-")
    sampled = TraceFlags(int(flags, 16))
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=sampled)
