"""Traces tell what happened and change nothing of it, whatever becomes of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from schemas.codec import encode_job
from schemas.records import Job, Outcome
from settings import Settings
from sinks.batch import Record as Told
from sinks.batch import Taken
from sinks.spans import tell_written
from streams.calls import Calls
from streams.delays.records import Record
from streams.delays.told import tell_wait
from streams.handlers.answers import Answer, Done, Retry
from streams.heads import Head, Origin, State
from streams.job_records import tell
from telemetry import tracing
from telemetry.otlp import OtlpTraces
from telemetry.trace_ids import own_ids, own_traceparent, parent_in, with_one_parent
from telemetry.tracing import Member, Traces
from tests.otlp import Receiver, receiving
from tests.unit.builders import uid

JOB = uid("job")
EVENT = uid("event")
GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
BROKEN = ["", "junk", "00-0-0-0", GOOD.upper(), GOOD + "-more", "ff" + GOOD[2:]]


@pytest.fixture
def otlp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        yield receiver
        tracing.end()


def job(number: int = 1) -> Job:
    return Job(
        id=JOB, organization_id=uid("org"), contact_id=uid("contact"), kind="inbound_turn",
        source_event_id=EVENT, created_at_ms=0, run_after_ms=0, payload="{}", attempt=number,
        seq=1, events=(),
    )  # fmt: skip


class Handler:
    kind = "inbound_turn"
    timeout_s = 5.0

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.sent: list[str] = []

    async def run(self, job: Job, attempt: int, headers: object) -> Answer:
        with tracing.traces().call("http://engine:1/turns?who=ana", {"traceparent": "x"}) as call:
            self.sent.append(call.headers["traceparent"])
            call.answered(200)
        return self._answers.pop(0)


def run(handler: Handler, *records: list[tuple[str, bytes | None]]) -> list[Answer | None]:
    async def attempts() -> list[Answer | None]:
        calls = Calls({handler.kind: handler}, lambda: None)
        for number, headers in enumerate(records, 1):
            calls.begin(b"k", 0, job(number), headers)
            await calls.settle(5)
        return [one.answer for one in calls.answers]

    return asyncio.run(attempts())


def test_by_itself_nothing_is_traced_and_no_header_is_added() -> None:
    tracing.begin(Settings(), "worker")
    traces = tracing.traces()
    assert type(traces) is Traces and not traces.on and traces.stamp(JOB) is None
    headers = {"traceparent": GOOD}
    with traces.attempt(JOB, "k", 1, "o", []) as attempt, traces.call("http://x", headers) as call:
        attempt.answered("done")
        assert call.headers is headers


def test_br_42_three_attempts_are_one_trace(otlp: Receiver) -> None:
    tracing.begin(Settings(tracing=True), "worker")
    handler = Handler(Retry("a: b"), Retry("a: b"), Done())
    stamp = tracing.traces().stamp(JOB) or []
    tracing.traces().made(JOB, "inbound_turn", [Member(EVENT, 7, 1_000)], 9_000)
    run(handler, stamp, [*stamp, ("attempt", b"2")], [])
    tracing.end()
    trace, root = own_ids(JOB)
    spans = otlp.of(trace)
    assert [one.name for one in spans if not one.parent] == ["job"]
    attempts = [one for one in spans if one.name.startswith("attempt")]
    assert [one.parent for one in attempts] == [root] * 3 and [one.failed for one in attempts] == [
        True,
        True,
        False,
    ]
    assert handler.sent == [f"00-{trace}-{one.span}-01" for one in spans if one.name == "POST"]
    assert spans[0].links == (own_ids(EVENT),) and spans[0].end_ns - spans[0].start_ns == 8_000_000_000
    assert "who" not in repr(otlp.spans), "no path or query of the address"


def test_a_job_that_came_with_a_trace_goes_on_in_it(otlp: Receiver) -> None:
    tracing.begin(Settings(tracing=True), "worker")
    run(Handler(Done()), [("traceparent", GOOD.encode()), ("traceparent", own_traceparent(JOB).encode())])
    tracing.traces().came(EVENT, [("traceparent", GOOD.encode())])
    tracing.traces().made(JOB, "inbound_turn", [Member(EVENT, 7, 1_000)], 9_000)
    tracing.end()
    (attempt, _) = otlp.of(GOOD.split("-")[1])
    assert attempt.parent == GOOD.split("-")[2]
    assert otlp.of(own_ids(JOB)[0])[0].links == (tuple(GOOD.split("-")[1:3]),)


def delayed(value: bytes, *headers: tuple[str, bytes | None]) -> Record:
    return Record("p-dispatch.delay.1m", 0, 7, 2_000, b"k", value, headers)


def test_a_wait_in_a_delay_topic_is_a_span_of_its_job(otlp: Receiver) -> None:
    tracing.begin(Settings(tracing=True), "delays")
    tell_wait(delayed(encode_job(job())), 62_000)
    tell_wait(delayed(encode_job(job()), ("traceparent", GOOD.encode())), 62_000)
    tell_wait(delayed(b"no job"), 62_000)
    tell_wait(delayed(b"no job", ("traceparent", GOOD.encode())), 1_000)
    tracing.end()
    trace, root = own_ids(JOB)
    (own,) = otlp.of(trace)
    assert (own.name, own.service, own.parent) == ("delay", "rajada-delays", root)
    assert (own.start_ns, own.end_ns) == (2_000_000_000, 62_000_000_000)
    assert own.attributes == {"rajada.job_id": JOB, "messaging.destination.name": "p-dispatch.delay.1m"}
    given = otlp.of(GOOD.split("-")[1])
    assert [one.parent for one in given] == [GOOD.split("-")[2]] * 2 and len(otlp.spans) == 3
    assert all(one.end_ns >= one.start_ns for one in given)


def written(
    offset: int, job_id: str | None, *headers: tuple[str, bytes | None], status: str | None = None
) -> Taken:
    outcome = Outcome(
        organization_id=uid("org"), contact_id=uid("contact"), at_ms=0, stage="execute", events=(),
        status="done", outcome="done", job_id=job_id, job_status=status,
    )  # fmt: skip
    return Taken(3, offset + 1, outcome, Told("p-dispatch.outcomes", 3, offset, 0, b"k", b"", headers))


def test_what_the_sink_wrote_of_a_job_is_a_span_of_its_one_trace(otlp: Receiver) -> None:
    tracing.begin(Settings(tracing=True), "sink")
    given = ("traceparent", GOOD.encode())
    twice = ("traceparent", own_traceparent(JOB).encode())
    taken = [written(7, JOB, status="done"), written(8, JOB, given, twice), written(9, None), Taken(3, 20)]
    tell_written(taken, 2_000, 2_500)
    tracing.end()
    trace, root = own_ids(JOB)
    (own,), (other,) = otlp.of(trace), otlp.of(GOOD.split("-")[1])
    assert (own.name, own.service, own.parent) == ("write", "rajada-sink", root)
    assert (own.start_ns, own.end_ns) == (2_000_000_000, 2_500_000_000)
    assert own.attributes == {
        "rajada.job_id": JOB, "rajada.stage": "execute", "rajada.job_status": "done",
        "messaging.kafka.partition": 3, "messaging.kafka.offset": 7,
    }  # fmt: skip
    assert other.parent == GOOD.split("-")[2], "the first of several counts"
    assert len(otlp.spans) == 2, "what is of no job, or was not written, is none"


def test_a_run_of_the_reconciler_is_a_trace_of_its_own(otlp: Receiver) -> None:
    tracing.begin(Settings(tracing=True), "reconciler")
    good, bad = uid("run"), uid("another run")
    tracing.traces().reconciled(good, "tick", "done", {"moved": 3}, 1_000, 4_000)
    tracing.traces().reconciled(bad, "asked", "lost", {}, 1_000, 4_000)
    tracing.end()
    (run,), (lost,) = otlp.of(own_ids(good)[0]), otlp.of(own_ids(bad)[0])
    assert (run.name, run.service, run.parent, run.span) == (
        "reconcile",
        "rajada-reconciler",
        "",
        own_ids(good)[1],
    )
    assert run.end_ns - run.start_ns == 3_000_000_000 and not run.failed and lost.failed
    assert run.attributes == {
        "rajada.run_id": good, "rajada.kind": "tick", "rajada.end": "done", "rajada.moved": 3
    }  # fmt: skip


@pytest.mark.parametrize(
    ("came", "sent"),
    [
        ([], None),
        ([("traceparent", b"junk"), ("attempt", b"2")], None),
        (
            [("Traceparent", GOOD.encode()), ("traceparent", own_traceparent(JOB).encode())],
            [("traceparent", GOOD.encode())],
        ),
    ],
)
def test_a_jobs_outcome_carries_the_one_parent_of_its_record(
    came: list[tuple[str, bytes | None]], sent: list[tuple[str, bytes]] | None
) -> None:
    head = Head(State.RUNNING, job=encode_job(job()), origin=Origin("dispatch.jobs", 0, 0, 0, came))
    tell(head, job(), 0, "done")
    assert head.unsent[0].headers == sent


@pytest.mark.parametrize("header", BROKEN)
def test_a_broken_header_is_none(otlp: Receiver, header: str) -> None:
    tracing.begin(Settings(tracing=True), "worker")
    handler = Handler(Done())
    assert run(handler, [("traceparent", header.encode())]) == [Done()]
    assert handler.sent[0].split("-")[1] == own_ids(JOB)[0]


def test_nobody_who_takes_the_spans_changes_nothing_and_holds_no_stop_up(otlp: Receiver) -> None:
    otlp.refuse = True
    tracing.begin(Settings(tracing=True), "worker")
    assert run(Handler(Retry("a: b"), Done()), [], []) == [Retry("a: b"), Done()]
    began = time.monotonic()
    tracing.end()
    assert time.monotonic() - began < 4 and otlp.requests >= 1 and not otlp.spans


@pytest.mark.thorough
def test_a_defect_of_tracing_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = OtlpTraces("worker", InMemorySpanExporter())
    monkeypatch.setattr(tracing, "_traces", traces)
    monkeypatch.setattr(traces, "_tracer", None)
    monkeypatch.setattr(traces, "_provider", None)
    assert run(Handler(Done()), []) == [Done()]
    assert traces.stamp(JOB) is None
    traces.published(EVENT, "t", 0)
    traces.came(EVENT, [("traceparent", GOOD.encode())])
    traces.made(JOB, "k", [Member(EVENT, 0, 0)], 0)
    tell_wait(delayed(encode_job(job())), 0)
    tell_written([written(7, JOB)], 0, 1)
    traces.reconciled(uid("run"), "tick", "done", {}, 0, 1)


def test_what_is_not_sampled_is_not_sampled_anywhere(otlp: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    tracing.begin(Settings(tracing=True), "worker")
    handler = Handler(Done())
    ((_, stamp),) = tracing.traces().stamp(JOB) or []
    tracing.traces().made(JOB, "k", [Member(EVENT, 0, 0)], 0)
    run(handler, [])
    tracing.end()
    assert stamp is not None and stamp.endswith(b"-00") and handler.sent[0].endswith("-00") and not otlp.spans


def test_wrong_variables_are_told_and_stop_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    tracing.begin(Settings(tracing=True), "worker")
    assert not tracing.traces().on


names = st.sampled_from(["traceparent", "Traceparent", "tracestate", "due-at"])
values = st.sampled_from([GOOD.encode(), own_traceparent(JOB).encode(), b"junk", None])


@given(st.lists(st.tuples(names, values)))
def test_of_several_parents_the_one_that_counts_is_left(headers: list[tuple[str, bytes | None]]) -> None:
    kept = with_one_parent(headers)
    assert parent_in(kept) == parent_in(headers)
    assert sum(name.lower() == "traceparent" for name, _ in kept) <= 1
    others = [one for one in headers if one[0].lower() != "traceparent"]
    assert [one for one in kept if one[0].lower() != "traceparent"] == others
    assert with_one_parent(kept) == kept
