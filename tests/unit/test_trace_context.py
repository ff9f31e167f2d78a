"""One trace a job, whatever its records picked up on their way."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.trace_context import own_traceparent, trace_headers
from tests.unit.builders import uid

JOB = uid("job")
GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-00"
WELL_FORMED = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def test_the_trace_of_a_record_goes_on_unchanged() -> None:
    headers = [("attempt", b"2"), ("traceparent", GOOD.encode()), ("tracestate", b"vendor=1")]
    assert trace_headers(JOB, headers) == {"traceparent": GOOD, "tracestate": "vendor=1"}


def test_of_several_that_piled_up_one_is_sent() -> None:
    headers = [(name, value.encode()) for name, value in
               [("traceparent", "junk"), ("Traceparent", GOOD), ("traceparent", OTHER)]]  # fmt: skip
    assert trace_headers(JOB, headers) == {"traceparent": GOOD}


@pytest.mark.parametrize(
    "value",
    [None, b"", b"\xff\xfe", GOOD.upper().encode(), b"ff" + GOOD[2:].encode(), GOOD.encode() + b"-x",
     b"00-" + b"0" * 32 + b"-00f067aa0ba902b7-01", GOOD.encode() + b"\n"],
)  # fmt: skip
def test_what_is_no_traceparent_gives_way_to_the_jobs_own(value: bytes | None) -> None:
    sent = trace_headers(JOB, [("traceparent", value), ("tracestate", b"vendor=1")])
    assert sent == {"traceparent": own_traceparent(JOB)}


@pytest.mark.parametrize("state", [b"a=1\r\nX-Evil: 1", b"", b"a=\xc3\xa9", b"x" * 600])
def test_a_tracestate_that_no_header_can_carry_stays_behind(state: bytes) -> None:
    assert "tracestate" not in trace_headers(JOB, [("traceparent", GOOD.encode()), ("tracestate", state)])


@given(st.text() | st.uuids().map(str) | st.just("00000000-0000-0000-0000-000000000000"))
def test_br_42_without_one_every_attempt_of_a_job_is_in_the_same_trace(job_id: str) -> None:
    first, second = trace_headers(job_id, []), trace_headers(job_id, [("attempt", b"2")])
    assert first == second and WELL_FORMED.fullmatch(first["traceparent"])


def test_the_trace_of_a_job_can_be_found_by_its_id() -> None:
    assert own_traceparent(JOB).split("-")[1] == JOB.replace("-", "")
    assert own_traceparent(JOB) != own_traceparent(uid("another job"))
