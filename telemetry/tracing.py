"""Traces: one a job, from its first message to the HTTP call. Off unless RAJADA_TRACING says so.

What is traced asks `traces()` and calls it whether it is on or not: the class here does nothing, the one that
exports stands in `telemetry.otlp`, and OpenTelemetry is only imported there. Neither ever raises: a trace
that can't be made must not change the way of a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import structlog

from settings import Settings
from telemetry.trace_ids import Header

log = structlog.get_logger(__name__)


class Member(NamedTuple):
    """A message of a window."""

    event_id: str
    offset: int
    committed_ms: int
    """Unix ms."""


class Written(NamedTuple):
    """An outcome of a job as the sink wrote it."""

    stage: str
    job_status: str | None
    """None: it tells nothing of the job's own row."""
    partition: int
    offset: int


class Attempt:
    """One attempt of a job while it lasts."""

    def answered(self, answer: str, reason: str = "") -> None:
        """What the handler said: its class in lower case, and the code of its reason."""


class Call:
    """One HTTP request of an attempt while it lasts."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.headers = headers
        """With these it is sent."""

    def answered(self, status: int | None, fault: str = "") -> None:
        """An HTTP status, or (None) what went wrong instead."""


class Traces:
    """What is told of the way of messages and jobs; this one listens to nothing."""

    on = False
    """Whether anything comes of it: who would have to do more than call asks first."""

    def stamp(self, name: str) -> list[Header] | None:
        """The headers with which the first record about an event or a job is sent; None: none."""
        return None

    def published(self, event_id: str, event_type: str, committed_ms: int) -> None:
        """Kafka has taken the record of an event that was committed then (Unix ms)."""

    def came(self, event_id: str, headers: Sequence[Header]) -> None:
        """The record of an event came with these headers."""

    def made(self, job_id: str, kind: str, members: Sequence[Member], durable_ms: int) -> None:
        """These messages became a job, which was durable then (Unix ms)."""

    def waited(
        self,
        job_id: Callable[[], str | None],
        headers: Sequence[Header],
        topic: str,
        since_ms: int,
        until_ms: int,
    ) -> None:
        """A record with these headers lay in a delay topic from then to then (Unix ms).

        `job_id`: of the job that it is, None if it is none; only called when somebody listens.
        """

    @contextmanager
    def attempt(
        self, job_id: str, kind: str, number: int, organization_id: str, headers: Sequence[Header]
    ) -> Iterator[Attempt]:
        """Around one attempt of a job whose record has these headers."""
        yield Attempt()

    @contextmanager
    def call(self, url: str, headers: Mapping[str, str]) -> Iterator[Call]:
        """Around one request; a `traceparent` among its headers becomes that of the call."""
        yield Call(headers)

    def written(
        self, job_id: str, headers: Sequence[Header], told: Written, since_ms: int, until_ms: int
    ) -> None:
        """What became of a job stands in Postgres: the outcome's record had these headers (Unix ms)."""

    def reconciled(
        self, run_id: str, kind: str, end: str, counts: Mapping[str, int], since_ms: int, until_ms: int
    ) -> None:
        """A run of the reconciler, from then to then (Unix ms)."""

    def close(self) -> None:
        """Send what is left, for a moment at most."""


_traces = Traces()


def traces() -> Traces:
    """Those of this process."""
    return _traces


def begin(settings: Settings, name: str) -> None:
    """Trace from now on, if RAJADA_TRACING says so. `name`: of the process."""
    global _traces
    if not settings.tracing or _traces.on:
        return
    try:
        from telemetry.otlp import OtlpTraces

        _traces = OtlpTraces(name)
    except ImportError:
        advice = "pip install 'rajada[tracing]'"
        log.error("tracing_off", reason="OpenTelemetry is not installed", what_to_do=advice)
    except Exception as error:  # wrong OTEL_ variables, say; their values may be secrets
        log.error("tracing_off", error=type(error).__name__, what_to_do="see docs/tracing.md")


def end() -> None:
    """Trace no more (tests)."""
    global _traces
    _traces.close()
    _traces = Traces()
