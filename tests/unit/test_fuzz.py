"""Whatever bytes come: every decoder answers or refuses in its own words, and nothing else ever happens.

Bytes are anything at all, and good records with bytes changed, cut out, doubled or joined.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from db.pgoutput import BrokenMessage
from db.pgoutput import decode as decode_pgoutput
from db.tokens import new_token, read_token
from ops.dlq.lines import WrongLine, of_line
from ops.event_lines import read_line
from schemas import framing
from schemas.codec import (
    decode_command,
    decode_event,
    decode_job,
    decode_outcome,
    encode_command,
    encode_job,
    encode_outcome,
    self_contained,
)
from schemas.errors import Undecodable
from schemas.records import Command, Outcome
from streams.contact import Contact, decode_contact, encode_contact
from streams.contact_jobs import ContactJobs, decode_jobs, encode_jobs
from streams.events import Event, InvalidPayload, Unreadable, read_event
from streams.group_links import GroupLinkEvent, read_group_link
from streams.trace_context import trace_headers
from tests.unit.builders import row, row_bytes
from tests.unit.job_worlds import START_MS, job_of, uuid
from web.pages.sessions import new_session, read_session

MOST_MIB = 32
"""Memory that a decoder may take for a record of a few hundred bytes."""

ROW = row_bytes()
DEBEZIUM = json.dumps({"schema": {"type": "struct"}, "payload": {"before": None, "after": row(), "op": "c"}})
JOB = encode_job(job_of(1))
COMMAND = encode_command(Command(id=uuid(7), at_ms=1, action="hold", job_id=uuid(8)))
OUTCOME = encode_outcome(
    Outcome(organization_id=uuid(2), contact_id=uuid(4), at_ms=1, stage="execute", events=(), status="done",
            outcome="done", job_id=uuid(8), job=job_of(1), job_status="done")
)  # fmt: skip
LINE = json.dumps({"organization_id": uuid(2), "payload": json.loads(str(row()["payload"]))}).encode()
COOKIE = new_session(uuid(1), b"x" * 32, 1.0).cookie
CONTACT = Contact(topic_id="t", recent={"a": (1, 2)})
TOKEN = str(new_token())


def as_event(value: bytes) -> None:
    """The source topic's reader: it tells by what it returns."""
    for headers in ([], [("replay", value), ("again", value), ("rajada-due-ms", value), ("x", None)]):
        found = read_event(value, headers, 1, START_MS, 7)
        assert isinstance(found, Event | InvalidPayload | Unreadable)


def as_link(value: bytes) -> None:
    """The reader of group links: it tells by what it returns."""
    found = read_group_link(value, [("replay", value)], START_MS)
    assert isinstance(found, GroupLinkEvent | InvalidPayload | Unreadable)


DECODERS: dict[str, tuple[Callable[[bytes], object], tuple[type[Exception], ...], bytes]] = {
    "job": (decode_job, (Undecodable,), JOB),
    "outcome": (decode_outcome, (Undecodable,), OUTCOME),
    "event": (decode_event, (Undecodable,), JOB),
    "command": (decode_command, (Undecodable,), COMMAND),
    "job that is kept": (self_contained, (Undecodable,), JOB),
    "in a registry's frame": (decode_job, (Undecodable,), framing.frame(7) + JOB[10:]),
    "row of change data capture": (as_event, (), ROW),
    "envelope of Debezium": (as_event, (), DEBEZIUM.encode()),
    "group link": (as_link, (), ROW),
    "contact of a changelog": (
        decode_contact,
        (msgspec.DecodeError,),
        encode_contact(CONTACT),
    ),
    "jobs of a changelog": (decode_jobs, (msgspec.DecodeError,), encode_jobs(ContactJobs())),
    "message of the log": (decode_pgoutput, (BrokenMessage,), b"B" + bytes(20)),
    "line of an export": (of_line, (WrongLine,), b'{"key": {"text": "a"}, "value": null, "headers": []}'),
    "line for produce": (lambda value: read_line(1, value), (), LINE),
    "trace": (
        lambda value: trace_headers(uuid(1), [("traceparent", value), ("tracestate", value)]),
        (),
        b"00-0b0c3f5e5d0a5c529d7e0a4b1f1f6c11-5a1d2c7e90b3f864-01",
    ),
    "token": (lambda value: read_token(value.decode("latin-1")), (), TOKEN.encode()),
    "cookie": (lambda value: read_session(value.decode("latin-1")), (), COOKIE.encode()),
}
"""What is read → its decoder, what it may raise, and a good one."""


@st.composite
def broken(draw: st.DrawFn, good: bytes) -> bytes:
    """A good record with something done to it."""
    value = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(value)))
        match draw(st.sampled_from(["flip", "cut", "double", "insert", "large"])):
            case "flip" if at < len(value):
                value[at] ^= draw(st.integers(1, 255))
            case "cut":
                del value[at : at + draw(st.integers(1, 20))]
            case "double":
                value[at:at] = value[at : at + draw(st.integers(1, 20))]
            case "large":  # as a length: of an array, a text, a block
                value[at:at] = b"\xfe\xff\xff\xff\xff\xff\xff\x7f"[: draw(st.integers(1, 8))]
            case _:
                value[at:at] = draw(st.binary(min_size=1, max_size=12))
    return bytes(value)


@pytest.mark.thorough
@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_decoder_answers_or_refuses_in_its_own_words(name: str, data: st.DataObject) -> None:
    decode, may_raise, good = DECODERS[name]
    value = data.draw(st.one_of(broken(good), broken(good), st.binary(max_size=200)))
    tracemalloc.start()
    try:
        decode(value)
    except may_raise as error:
        assert str(error) or type(error).__name__
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < MOST_MIB * 1024 * 1024


ODD = [b"", b"\x00", b"[" * 100_000, b'{"a":' * 50_000, b"\xff" * 1000, b"null", b"1" * 5_000]


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_what_has_broken_decoders_elsewhere_breaks_none(name: str, value: bytes) -> None:
    decode, may_raise, _ = DECODERS[name]
    try:
        decode(value)
    except may_raise:
        return
