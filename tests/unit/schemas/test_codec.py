"""Records come back as they went out, and broken bytes are told apart by what is wrong with them."""

import json
from io import BytesIO

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import (
    HEADER_BYTES,
    _Line,
    decode_command,
    decode_event,
    decode_job,
    decode_outcome,
    encode_event,
    encode_job,
    encode_outcome,
    is_single_object,
)
from schemas.errors import BadAvro, NotAvro, Undecodable, UnknownSchema
from schemas.history import Version, as_json, versions
from schemas.records import Alert, EventOutcome, EventRef, Job, Outcome
from settings import RajadaError

texts = st.text(max_size=40)
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
refs = st.builds(EventRef, texts, longs)
jobs = st.builds(
    Job, id=texts, organization_id=texts, contact_id=st.none() | texts, kind=texts, source_event_id=texts,
    replay=longs, seq=longs, copy=longs, attempt=ints, max_attempts=ints, priority=ints, created_at_ms=longs,
    run_after_ms=longs, payload=texts, events=st.lists(refs, max_size=5).map(tuple),
)  # fmt: skip
event_outcomes = st.builds(EventOutcome, event_id=texts, replay=longs, seq=longs, attempts=ints)
alerts = st.builds(
    Alert, kind=texts, title=texts, body=texts, ref_kind=st.none() | texts, ref_id=st.none() | texts
)
outcomes = st.builds(
    Outcome, organization_id=texts, contact_id=st.none() | texts, at_ms=longs, stage=texts,
    events=st.lists(event_outcomes, max_size=5).map(tuple), status=texts, outcome=st.none() | texts,
    job_id=st.none() | texts, last_error=st.none() | texts, next_attempt_at_ms=st.none() | longs,
    facts=st.none() | texts, job=st.none() | jobs, job_status=st.none() | texts, alert=st.none() | alerts,
    result=st.none() | texts,
)  # fmt: skip

JOB = Job(
    id="j", organization_id="o", kind="inbound_turn", source_event_id="e", seq=2, created_at_ms=1,
    run_after_ms=2, payload="{}", events=(EventRef("e"),),
)  # fmt: skip


@pytest.mark.thorough
@given(jobs)
def test_jobs_come_back_as_they_went(job: Job) -> None:
    assert decode_job(encode_job(job)) == job


@pytest.mark.thorough
@given(outcomes)
def test_outcomes_come_back_as_they_went(outcome: Outcome) -> None:
    assert decode_outcome(encode_outcome(outcome)) == outcome


def test_the_bytes_are_avro_that_another_reader_with_the_schema_reads() -> None:
    data = encode_job(JOB)
    newest = versions("Job")[-1]
    assert data[:2] == b"\xc3\x01"
    assert data[2:HEADER_BYTES] == newest.fingerprint
    datum = fastavro.schemaless_reader(BytesIO(data[HEADER_BYTES:]), json.loads(newest.text), None)
    assert datum["source_event_id"] == "e"
    assert datum["events"] == [{"event_id": "e", "replay": 0}]


def test_an_event_gets_the_shape_of_the_cdc_row() -> None:
    row = {"id": "e", "organization_id": "o", "event_type": "ai_agent.dispatch_requested", "payload": "{}"}
    decoded = decode_event(encode_event(row))
    assert decoded | row == decoded
    assert decoded["status"] == "pending"
    assert decoded["consumed_by"] == []
    assert decoded["attempts"] == 0
    assert decoded["outcome_replay"] is None


def test_an_older_writers_record_is_read_with_the_defaults_of_the_newest() -> None:
    newest = json.loads(versions("Job")[-1].text)
    older = dict(newest, fields=[field for field in newest["fields"] if field["name"] != "priority"])
    line = _Line("Job", (Version("Job", 1, json.dumps(older)), Version("Job", 2, json.dumps(newest))))
    old_writer = _Line("Job", (Version("Job", 1, json.dumps(older)),))
    datum = json.loads('{"id":"j","organization_id":"o","kind":"k","source_event_id":"e","seq":1}')
    datum |= {"created_at_ms": 1, "run_after_ms": 2, "payload": "{}", "events": []}
    assert line.decode(old_writer.encode(datum))["priority"] == 100


def test_json_is_told_apart_by_its_first_bytes() -> None:
    assert is_single_object(encode_job(JOB))
    assert not is_single_object(b'{"id": "7d4c"}')
    assert not is_single_object(b"")
    assert not is_single_object(b"\xc3\x01short")


@pytest.mark.parametrize("data", [b"", b"{}", b"\xc3", b"\x00" * 4, "Ã01".encode()])
def test_bytes_of_somebody_else_are_not_avro(data: bytes) -> None:
    with pytest.raises(NotAvro, match="find the producer"):
        decode_outcome(data)


def test_an_unknown_schema_is_named_by_its_fingerprint() -> None:
    with pytest.raises(UnknownSchema, match="0102030405060708") as caught:
        decode_job(b"\xc3\x01" + bytes(range(1, 9)) + b"body")
    assert caught.value.header == b"\xc3\x01" + bytes(range(1, 9))
    assert isinstance(caught.value, RajadaError)


def test_another_record_of_ours_is_named() -> None:
    with pytest.raises(BadAvro, match="it is a Job"):
        decode_outcome(encode_job(JOB))


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(BadAvro, match="2 bytes after its end"):
        decode_job(encode_job(JOB) + b"xx")


@pytest.mark.thorough
@given(outcomes, st.data())
def test_a_cut_off_record_is_refused(outcome: Outcome, data: st.DataObject) -> None:
    encoded = encode_outcome(outcome)
    cut = data.draw(st.integers(HEADER_BYTES, len(encoded) - 1))
    with pytest.raises(BadAvro):
        decode_outcome(encoded[:cut])


@pytest.mark.thorough
@given(st.binary(max_size=200))
def test_any_bytes_after_a_known_header_decode_or_say_that_they_cannot(body: bytes) -> None:
    for record, decode in (
        ("Outcome", decode_outcome),
        ("Job", decode_job),
        ("DispatchRequested", decode_event),
        ("Command", decode_command),
    ):
        header = b"\xc3\x01" + versions(record)[-1].fingerprint
        try:
            decode(header + body)
        except Undecodable:
            continue


@pytest.mark.thorough
@given(jobs)
def test_a_jobs_bytes_are_those_that_avro_gives(job: Job) -> None:
    out = BytesIO()
    fastavro.schemaless_writer(
        out, fastavro.parse_schema(as_json(versions("Job")[-1])), msgspec.to_builtins(job)
    )
    assert encode_job(job)[HEADER_BYTES:] == out.getvalue()


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_number_beyond_avros_is_refused_and_not_cut(number: int) -> None:
    with pytest.raises(OverflowError):
        encode_job(msgspec.structs.replace(JOB, events=(EventRef("e", number),)))
    with pytest.raises(OverflowError):
        encode_job(msgspec.structs.replace(JOB, seq=number))


@pytest.mark.parametrize(
    "wrong",
    [{"kind": 5}, {"kind": None}, {"seq": "1"}, {"seq": None}, {"contact_id": 5}, {"payload": {}}],
    ids=str,
)
def test_what_does_not_fit_its_schema_is_not_written(wrong: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        encode_job(msgspec.structs.replace(JOB, **wrong))


@pytest.mark.thorough
@given(outcomes)
def test_the_job_put_in_between_gives_the_bytes_that_avro_gives(outcome: Outcome) -> None:
    datum = msgspec.to_builtins(outcome)
    schema = fastavro.parse_schema(as_json(versions("Outcome")[-1]))
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, datum)
    whole = encode_outcome(outcome)
    assert whole[HEADER_BYTES:] == out.getvalue()
    if outcome.job is not None:
        assert encode_outcome(outcome, encode_job(outcome.job)) == whole
