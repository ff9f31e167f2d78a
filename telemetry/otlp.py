"""Traces as OpenTelemetry has them, sent by OTLP over HTTP as the usual OTEL_ variables say.

The trace of a job is named after it (`telemetry.trace_ids`), and so is its first span: whoever runs an
attempt knows the name without being told. Spans are sent by a thread of the SDK; while nobody takes them they
are dropped.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, ParamSpec, TypeVar
from urllib.parse import urlsplit

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
)

from telemetry.span_places import Ids, context_of, ns, under
from telemetry.trace_ids import TRACEPARENT, Header, own_ids, own_traceparent, parent_in
from telemetry.tracing import Attempt, Call, Member, Traces, Written

log = structlog.get_logger(__name__)

CAME_KEPT: Final = 100_000
"""So many messages are remembered with the trace that they came with, until their window closes."""
CLOSE_S: Final = 2.0
"""How long a stop waits for spans to be sent."""
_FAILED: Final = frozenset({"retry", "dead"})

P = ParamSpec("P")
R = TypeVar("R")


def _quietly(method: Callable[P, R]) -> Callable[P, R | None]:
    """A defect of tracing is told once and changes nothing."""

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return method(*args, **kwargs)
        except Exception as error:
            _tell(method.__name__, error)
            return None

    return guarded


_told: set[str] = set()


def _tell(where: str, error: Exception) -> None:
    if where not in _told:
        _told.add(where)
        log.warning("tracing_failed", where=where, error=type(error).__name__, exc_info=True)


class _Attempt(Attempt):
    def __init__(self, span: Span) -> None:
        self._span = span

    @_quietly
    def answered(self, answer: str, reason: str = "") -> None:
        self._span.set_attribute("rajada.answer", answer)
        if reason:
            self._span.set_attribute("rajada.reason", reason)
        if answer in _FAILED:
            self._span.set_status(Status(StatusCode.ERROR, reason))


class _Call(Call):
    def __init__(self, span: Span, headers: Mapping[str, str]) -> None:
        super().__init__(headers)
        self._span = span

    @_quietly
    def answered(self, status: int | None, fault: str = "") -> None:
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
        if status is None or status >= 400:
            self._span.set_attribute("error.type", fault or str(status))
            self._span.set_status(Status(StatusCode.ERROR))


class OtlpTraces(Traces):
    """Spans that are exported.

    Args:
        name: of the process; the service is `rajada-<name>` unless OTEL_SERVICE_NAME says otherwise.
        exporter: where they go; by default as the OTEL_ variables say.
    """

    on = True

    def __init__(self, name: str, exporter: SpanExporter | None = None) -> None:
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: f"rajada-{name}"}
        logging.getLogger("opentelemetry.util.re").setLevel(logging.CRITICAL)  # it shows headers: secrets
        self._ids = Ids()
        self._provider = TracerProvider(
            resource=Resource.create(named), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("rajada")
        self._came: OrderedDict[str, str] = OrderedDict()
        atexit.register(self.close)

    def close(self) -> None:
        """Send what is left; whoever takes no spans must not hold up a stop."""
        atexit.unregister(self.close)
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(CLOSE_S)

    def stamp(self, name: str) -> list[Header] | None:
        """See `Traces`."""
        return self._stamp(name)

    @_quietly
    def _stamp(self, name: str) -> list[Header]:
        return [(TRACEPARENT, own_traceparent(name, sampled=self._is_sampled(name)).encode())]

    @_quietly
    def published(self, event_id: str, event_type: str, committed_ms: int) -> None:
        """See `Traces`."""
        attributes = {"rajada.event_id": event_id, "messaging.destination.name": event_type}
        span = self._first(event_id, "publish", committed_ms, attributes, kind=SpanKind.PRODUCER)
        span.end()

    @_quietly
    def came(self, event_id: str, headers: Sequence[Header]) -> None:
        """See `Traces`."""
        parent = parent_in(headers)
        if parent is not None:
            self._came[event_id] = parent
            if len(self._came) > CAME_KEPT:
                self._came.popitem(last=False)

    @_quietly
    def made(self, job_id: str, kind: str, members: Sequence[Member], durable_ms: int) -> None:
        """See `Traces`."""
        links = [
            Link(
                context_of(self._came.pop(one.event_id, "") or own_traceparent(one.event_id)),
                {"rajada.event_id": one.event_id, "messaging.kafka.offset": one.offset},
            )
            for one in members
        ]
        attributes: dict[str, str | int] = {
            "rajada.job_id": job_id,
            "rajada.kind": kind,
            "rajada.messages": len(members),
        }
        began_ms = min((one.committed_ms for one in members), default=durable_ms)
        span = self._first(job_id, "job", began_ms, attributes, links=links)
        for one in members:
            span.add_event("message", {"rajada.event_id": one.event_id}, ns(one.committed_ms))
        span.end(ns(max(durable_ms, began_ms)))

    @_quietly
    def waited(
        self,
        job_id: Callable[[], str | None],
        headers: Sequence[Header],
        topic: str,
        since_ms: int,
        until_ms: int,
    ) -> None:
        """See `Traces`."""
        job = job_id()
        if job is None and parent_in(headers) is None:
            return
        attributes = {"messaging.destination.name": topic, **({"rajada.job_id": job} if job else {})}
        self._taken("delay", under(self._known(job or "", headers)), attributes, since_ms, until_ms)

    @_quietly
    def written(
        self, job_id: str, headers: Sequence[Header], told: Written, since_ms: int, until_ms: int
    ) -> None:
        """See `Traces`."""
        attributes: dict[str, str | int] = {
            "rajada.job_id": job_id,
            "rajada.stage": told.stage,
            "messaging.kafka.partition": told.partition,
            "messaging.kafka.offset": told.offset,
        }
        if told.job_status is not None:
            attributes["rajada.job_status"] = told.job_status
        self._taken("write", under(self._known(job_id, headers)), attributes, since_ms, until_ms)

    def _taken(
        self, name: str, parent: Context, attributes: Mapping[str, str | int], since_ms: int, until_ms: int
    ) -> None:
        """A span of what was done with a record, once that is over."""
        span = self._tracer.start_span(
            name, context=parent, kind=SpanKind.CONSUMER, attributes=attributes, start_time=ns(since_ms)
        )
        span.end(ns(max(until_ms, since_ms)))

    @_quietly
    def reconciled(
        self, run_id: str, kind: str, end: str, counts: Mapping[str, int], since_ms: int, until_ms: int
    ) -> None:
        """See `Traces`."""
        told = {f"rajada.{name}": count for name, count in counts.items()}
        attributes: dict[str, str | int] = {
            "rajada.run_id": run_id,
            "rajada.kind": kind,
            "rajada.end": end,
            **told,
        }
        span = self._first(run_id, "reconcile", since_ms, attributes)
        if end != "done":
            span.set_status(Status(StatusCode.ERROR, end))
        span.end(ns(max(until_ms, since_ms)))

    @contextmanager
    def attempt(
        self, job_id: str, kind: str, number: int, organization_id: str, headers: Sequence[Header]
    ) -> Iterator[Attempt]:
        """See `Traces`."""
        span = self._attempt(job_id, kind, number, organization_id, headers)
        if span is None:
            yield Attempt()
            return
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            yield _Attempt(span)

    @_quietly
    def _attempt(
        self, job_id: str, kind: str, number: int, organization_id: str, headers: Sequence[Header]
    ) -> Span:
        attributes: dict[str, str | int] = {
            "rajada.job_id": job_id,
            "rajada.kind": kind,
            "rajada.attempt": number,
            "rajada.organization_id": organization_id,
        }
        return self._tracer.start_span(
            f"attempt {kind}",
            context=under(self._known(job_id, headers)),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
        )

    @contextmanager
    def call(self, url: str, headers: Mapping[str, str]) -> Iterator[Call]:
        """See `Traces`."""
        span = self._call(url)
        if span is None:
            yield Call(headers)
            return
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            yield _Call(span, _with_parent(headers, span.get_span_context()))

    @_quietly
    def _call(self, url: str) -> Span:
        parts = urlsplit(url)  # neither path nor query: they may name somebody
        attributes = {"http.request.method": "POST", "server.address": parts.hostname or ""}
        return self._tracer.start_span("POST", kind=SpanKind.CLIENT, attributes=attributes)

    def _first(
        self,
        name: str,
        what: str,
        began_ms: int,
        attributes: Mapping[str, str | int],
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[Link] = (),
    ) -> Span:
        """The first span of the trace that is named after an event or a job."""
        trace_id, span_id = own_ids(name)
        self._ids.preset(int(trace_id, 16), int(span_id, 16))
        return self._tracer.start_span(
            what, context=Context(), kind=kind, attributes=attributes, links=links, start_time=ns(began_ms)
        )

    def _known(self, name: str, headers: Sequence[Header]) -> str:
        """The `traceparent` that a record came with, else that of the trace named after what it is about."""
        return parent_in(headers) or own_traceparent(name, sampled=self._is_sampled(name))

    def _is_sampled(self, name: str) -> bool:
        """Whether the trace of this name is recorded: the same in every process that is set alike."""
        decided = self._provider.sampler.should_sample(None, int(own_ids(name)[0], 16), "job")
        return decided.decision is Decision.RECORD_AND_SAMPLE


def _with_parent(headers: Mapping[str, str], context: SpanContext) -> Mapping[str, str]:
    """A request that tells of a trace at all tells of this call; others aren't told to strangers."""
    if TRACEPARENT not in headers:
        return headers
    told = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    return {**headers, TRACEPARENT: told}
